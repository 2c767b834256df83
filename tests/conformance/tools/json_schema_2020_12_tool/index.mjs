export async function handler(args) {
  return { content: [{ type: "json", value: args }] };
}
