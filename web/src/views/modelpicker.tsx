import type { JSX } from "preact";
export function ModelDialog(_: { onClose: () => void; onChosen: () => void }): JSX.Element { return <p />; }
