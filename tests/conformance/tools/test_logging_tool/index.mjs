export async function handler() {
  console.log("standard output of a handler");
  console.error("standard error of a handler");
  return { content: [{ type: "text", text: "printed" }] };
}
