// An MCP server over stdio with one tool, as the TypeScript SDK's users write it.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';

const server = new McpServer({ name: 'bench', version: '1.0.0' });

server.registerTool(
  'echo',
  { description: 'Return the text.', inputSchema: { text: z.string(), count: z.number().int().optional() } },
  async ({ text }) => ({ content: [{ type: 'text', text }] }),
);

await server.connect(new StdioServerTransport());
