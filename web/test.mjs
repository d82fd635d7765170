// Runs the tests of the page's modules that need no browser: node test.mjs. tests/web/ of the repository has the page in one.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const folder = fileURLToPath(new URL("tests", import.meta.url));
const entryPoints = readdirSync(folder).filter((name) => name.endsWith(".test.ts")).map((name) => join(folder, name));
const out = mkdtempSync(join(tmpdir(), "fedgrab-page-tests-"));
try {
  buildSync({ entryPoints, bundle: true, platform: "node", format: "cjs", outExtension: { ".js": ".cjs" }, outdir: out });
  const files = readdirSync(out).map((name) => join(out, name));
  process.exitCode = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(out, { recursive: true, force: true });
}
