import { readdirSync } from "node:fs";
import { defineConfig } from "vite";

// The tests are bundled like the page and run by node itself: no test framework is needed.
const tests = readdirSync("test").filter((name) => name.endsWith(".test.ts"));

export default defineConfig({
  build: {
    ssr: true,
    outDir: "out-test",
    emptyOutDir: true,
    rolldownOptions: {
      input: Object.fromEntries(tests.map((name) => [name.replace(/\.ts$/, ""), `test/${name}`])),
      output: { entryFileNames: "[name].mjs" },
    },
  },
});
