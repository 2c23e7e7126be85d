// A sentence in which `names` stand between backticks, shown as names and not with the backticks.

import type { JSX } from "preact";

export function Prose({ text }: { text: string }): JSX.Element {
  return <>{text.split(/(`[^`]+`)/).map((part, at) => (at % 2 ? <code key={at}>{part.slice(1, -1)}</code> : part))}</>;
}
