// Bundles the page into one HTML file: node build.mjs OUTPUT. Style and script go inline; the data comes later, from
// `fedgrab report` in place of the null in it, or over the wire from `fedgrab watch`.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const bundle = (entry) =>
  buildSync({ entryPoints: [here(entry)], bundle: true, minify: true, write: false, target: "es2020", legalComments: "none" })
    .outputFiles[0].text.trim();

// Nothing in a bundle may end the element it stands in.
const script = bundle("src/main.ts").replaceAll("</script", "<\\/script");
const style = bundle("src/style.css");
// Only this very script may run, whatever else gets into the page.
const hash = createHash("sha256").update(script).digest("base64");

const page = readFileSync(here("src/index.html"), "utf8")
  .replace("%HASH%", () => hash)
  .replace("%STYLE%", () => style)
  .replace("%SCRIPT%", () => script);
writeFileSync(process.argv[2] ?? here("page.html"), page);
