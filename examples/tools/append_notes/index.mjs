import fs from "node:fs/promises";
import path from "node:path";

// Runs before approval, without any I/O: say what is wrong and show a call that works.
export function validateArgs({ path: file, text }) {
  if (file.trim() === "") return "path must name a file";
  if (!text.endsWith("\n")) {
    return 'text must end with a newline, for example {"path":"notes.txt","text":"Buy milk\\n"}';
  }
}

// Also before approval: what this call would change, so that a rule can look at it.
export function describeEffects({ path: file }, { cwd }) {
  return { files: [{ path: path.resolve(cwd, file), operation: "write" }] };
}

export async function handler({ path: file, text }, { cwd, signal }) {
  if (signal.aborted) {
    return { isError: true, code: "aborted", content: [{ type: "text", text: "nothing was written" }] };
  }
  const target = path.resolve(cwd, file);
  await fs.mkdir(path.dirname(target), { recursive: true });
  await fs.appendFile(target, text);
  return {
    content: [{ type: "text", text: `Appended ${Buffer.byteLength(text)} bytes to ${file}` }],
  };
}
