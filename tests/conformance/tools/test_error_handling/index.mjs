export async function handler() {
  throw new Error("This tool intentionally returns an error for testing");
}
