import tseslint from "typescript-eslint";

export default tseslint.config(
  {ignores: ["out/", "node_modules/"]},
  {
    files: ["src/**/*.ts", "test/**/*.ts"],
    extends: [...tseslint.configs.strictTypeChecked],
    languageOptions: {parserOptions: {projectService: true, tsconfigRootDir: import.meta.dirname}},
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", {allowNumber: true}],
    },
  },
  {
    // node:test returns a promise that the runner waits for.
    files: ["test/**/*.ts"],
    rules: {"@typescript-eslint/no-floating-promises": "off"},
  },
);
