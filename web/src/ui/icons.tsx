// Our own icons: one path each, drawn with the colour of the text around them.

import type { JSX } from "preact";

const PATHS = {
  new: "M12 5v14M5 12h14",
  inbox: "M4 13l2.5-8h11L20 13v6H4zM4 13h5a3 3 0 006 0h5",
  runs: "M4 6h10M4 12h16M4 18h7M18 4v4M15 18l3 2 3-2",
  templates: "M5 4h10l4 4v12H5zM9 12h6M9 16h6",
  schedules: "M12 4a8 8 0 100 16 8 8 0 000-16zM12 8v4l3 2",
  tools: "M14.5 6.5a4 4 0 00-5.4 5L4 16.6 7.4 20l5.1-5.1a4 4 0 005-5.4L15 12l-3-3z",
  usage: "M5 20V11M12 20V4M19 20v-6",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M14 4.5v5M6 14.5v5",
  waiting: "M12 4.5a7.5 7.5 0 100 15 7.5 7.5 0 000-15z",
  ready: "M12 4.5a7.5 7.5 0 100 15 7.5 7.5 0 000-15zM10 9l5 3-5 3z",
  running: "M12 4a8 8 0 018 8M12 20a8 8 0 01-8-8",
  asking: "M8.5 9a3.5 3.5 0 116 2.4c-1.4 1-2.5 1.7-2.5 3.1M12 18v.5",
  done: "M5 12.5l4.5 4.5L19 7.5",
  failed: "M6.5 6.5l11 11M17.5 6.5l-11 11",
  skipped: "M5 6l7 6-7 6zM13 6l7 6-7 6z",
  cancelled: "M12 4.5a7.5 7.5 0 100 15 7.5 7.5 0 000-15zM7 17L17 7",
  unknown: "M12 3l9.5 17h-19zM12 10v4.5M12 17v.5",
  triaging: "M4 6h16M4 11h10M4 16h7M16 14.5a3 3 0 100 6 3 3 0 000-6zM18.3 19.8L21 22",
  planning: "M5 19l1-4L16 5l3 3L9 18zM14 7l3 3",
  reviewing: "M2.5 12S6 6 12 6s9.5 6 9.5 6-3.5 6-9.5 6-9.5-6-9.5-6zM12 9.5a2.5 2.5 0 100 5 2.5 2.5 0 000-5z",
  paused: "M8.5 5.5v13M15.5 5.5v13",
  replanning: "M4 12a8 8 0 0113.7-5.6L20 8.5M20 4v4.5h-4.5M20 12a8 8 0 01-13.7 5.6L4 15.5M4 20v-4.5h4.5",
  partly_done: "M4 12.5l4 4M20 6.5l-8 8M13 18h7",
  answered: "M4 5h16v11h-9l-4 4v-4H4z",
  up: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  remove: "M5 7h14M10 7V4.5h4V7M7 7l1 13h8l1-13",
  copy: "M8 8h11v11H8zM5 16V5h11",
  undo: "M9 6L4 11l5 5M4 11h10a5 5 0 010 10h-2",
  redo: "M15 6l5 5-5 5M20 11H10a5 5 0 000 10h2",
  right: "M9 5l7 7-7 7",
  left: "M15 5l-7 7 7 7",
  warning: "M12 3l9.5 17h-19zM12 10v4.5M12 17v.5",
  error: "M12 3.5a8.5 8.5 0 100 17 8.5 8.5 0 000-17zM12 8v5M12 16v.5",
  note: "M12 3.5a8.5 8.5 0 100 17 8.5 8.5 0 000-17zM12 11v5M12 7.5v.5",
  consent: "M12 3l7.5 3v5.5c0 4.6-3.1 8-7.5 9.5-4.4-1.5-7.5-4.9-7.5-9.5V6zM8.5 12l2.5 2.5 4.5-5",
  menu: "M4 6h16M4 12h16M4 18h16",
  out: "M14 4h6v6M20 4l-9 9M18 14v6H4V6h6",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, title }: { name: IconName; title?: string }): JSX.Element {
  const labelled = title ? { role: "img" as const, "aria-label": title } : { "aria-hidden": true as const };
  return (
    <svg class={`icon icon-${name}`} viewBox="0 0 24 24" {...labelled}>
      <path d={PATHS[name]} />
    </svg>
  );
}

export const pathOf = (name: IconName): string => PATHS[name];
