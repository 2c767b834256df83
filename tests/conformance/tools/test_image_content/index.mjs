// A PNG of one red pixel.
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

export async function handler() {
  return { content: [{ type: "image", mimeType: "image/png", data: PIXEL }] };
}
