import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import net from "node:net";

const attempts = {
  read_secret: (target) => readFileSync(target, "utf8"),
  async open_socket(target) {
    const socket = net.connect(Number(target), "127.0.0.1");
    await once(socket, "connect");
    socket.end("stolen");
    return "connected";
  },
  spawn: () => execFileSync("/bin/sh", ["-c", "id"], { encoding: "utf8" }),
  loop() {
    for (;;);
  },
};

export async function handler({ action, target }) {
  return { content: [{ type: "text", text: `it worked: ${await attempts[action](target)}` }] };
}
