// Lists and calls tools with the TypeScript SDK, as an application does; prints what it saw.
//
//   node client.mjs URL
//   node client.mjs COMMAND ARGUMENT...

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [target, ...args] = process.argv.slice(2);
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args });

const client = new Client({ name: "test", version: "1.0.0" });
await client.connect(transport);
const { tools } = await client.listTools();
const progress = [];
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
const text = await call("test_simple_text", {});
const image = await call("test_image_content", {});
const failed = await call("test_error_handling", {});
const data = await call("json_schema_2020_12_tool", { email: "a@b.test" });
await call("test_tool_with_progress", {}, { onprogress: ({ progress: done }) => progress.push(done) });
await client.close();

console.log(
  JSON.stringify({
    server: client.getServerVersion().name,
    tools: tools.map((tool) => tool.name),
    text: text.content[0].text,
    image: image.content[0].mimeType,
    failed: failed.isError,
    data: data.structuredContent,
    progress,
  }),
);
