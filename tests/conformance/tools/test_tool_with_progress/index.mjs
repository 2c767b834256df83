import { setTimeout as sleep } from "node:timers/promises";

// A screen gets one frame of a panel in 250 ms; a quicker update would replace the one before.
const BETWEEN_MS = 320;

export async function handler(_args, context) {
  for (const done of [0, 50, 100]) {
    if (done > 0) await sleep(BETWEEN_MS);
    await context.panels.update("work", {
      op: "replace",
      document: { progress: { done, total: 100 }, blocks: [] },
    });
  }
  return { content: [{ type: "text", text: "done, with progress" }] };
}
