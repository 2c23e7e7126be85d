// The title of the tab: what is shown, and before it how much waits for the person.

let shown = "Plansmith";
let waiting = 0;

const write = (): void => { document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${shown}`; };

export function setTitle(name: string): void {
  shown = `${name} · Plansmith`;
  write();
}

export function setWaiting(count: number): void {
  waiting = count;
  write();
}
