// Light or dark: as the system, or as the person chose for this browser.

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const STORED = "plansmith-theme";

export function wantedTheme(): Theme {
  const stored = localStorage.getItem(STORED);
  return THEMES.find((each) => each === stored) ?? "system";
}

export function applyTheme(theme: Theme = wantedTheme()): void {
  localStorage.setItem(STORED, theme);
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}
