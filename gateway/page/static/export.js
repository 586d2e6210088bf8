// Downloads events with their contents as JSON lines, oldest first.

import { masked } from "./secrets.js";

const MOST = 50_000;

export async function exportEvents(session, parameters, progress) {
  const chunks = [];
  let count = 0;
  parameters.set("order", "ascending");
  parameters.set("contents", "true");
  for (;;) {
    const page = await session.events(parameters);
    if (page.items.length) chunks.push(`${page.items.map(line).join("\n")}\n`);
    count += page.items.length;
    progress(count);
    if (!page.metadata.continue || count >= MOST) break;
    parameters.set("continue", page.metadata.continue);
  }
  download(new Blob(chunks, { type: "application/x-ndjson" }), "journal.jsonl");
  return count;
}

function line(one) {
  return JSON.stringify(one.object ? { ...one, object: masked(one.type, one.object) } : one);
}

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
