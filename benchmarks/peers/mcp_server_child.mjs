// The same server with its tool in a process of its own, unprotected: what a call costs
// once a tool may crash or hang without the server.

import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';

if (process.send) {
  process.on('message', ({ id, args }) => process.send({ id, text: args.text }));
} else {
  const child = fork(fileURLToPath(import.meta.url), { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const waiting = new Map();
  let count = 0;
  child.on('message', ({ id, text }) => {
    waiting.get(id)(text);
    waiting.delete(id);
  });
  const server = new McpServer({ name: 'bench', version: '1.0.0' });
  server.registerTool(
    'echo',
    { description: 'Return the text.', inputSchema: { text: z.string(), count: z.number().int().optional() } },
    async (args) => {
      const text = await new Promise((resolve) => {
        waiting.set(++count, resolve);
        child.send({ id: count, args });
      });
      return { content: [{ type: 'text', text }] };
    },
  );
  await server.connect(new StdioServerTransport());
}
