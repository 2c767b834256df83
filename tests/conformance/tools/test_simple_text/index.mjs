export async function handler() {
  const text = "This is a simple text response for testing.";
  return { content: [{ type: "text", text }] };
}
