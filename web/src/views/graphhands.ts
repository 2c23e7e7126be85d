// How hands move the drawing: dragging moves, the wheel and two fingers zoom about where they are.

import { useEffect, useRef } from "preact/hooks";
import type { Place } from "../data/layout";
import { pinched, zoomedAt } from "../data/viewport";
import type { Viewport } from "../data/viewport";

// A press that moves less than this is a click.
const STILL = 4;
// Somebody who scrolls the page past the drawing goes on scrolling the page.
const SCROLLING = 400;

type Pair = readonly [Place, Place];
interface Drag { at: Place; view: Viewport; far: boolean }

export function useHands(canvas: { current: HTMLDivElement | null }, view: Viewport, setView: (view: Viewport) => void): void {
  const latest = useRef(view);
  latest.current = view;
  useEffect(() => {
    const box = canvas.current!;
    const show = (next: Viewport): void => { latest.current = next; setView(next); };
    const place = (event: MouseEvent): Place => {
      const { left, top } = box.getBoundingClientRect();
      return { x: event.clientX - left, y: event.clientY - top };
    };
    const hands = { ...wheeling(latest, show, place), ...pointing(box, latest, show, place), dragstart: (event: Event) => event.preventDefault() };
    for (const [name, handler] of Object.entries(hands)) box.addEventListener(name, handler as EventListener, { passive: false });
    const elsewhere = (event: WheelEvent): void => { if (!box.contains(event.target as Node)) scrolled = event.timeStamp; };
    addEventListener("wheel", elsewhere, { passive: true });
    return () => {
      for (const [name, handler] of Object.entries(hands)) box.removeEventListener(name, handler as EventListener);
      removeEventListener("wheel", elsewhere);
    };
  }, []);
}

// When the page was last scrolled by the wheel; there is one wheel for all drawings.
let scrolled = 0;

type Show = (view: Viewport) => void;
type PlaceOf = (event: MouseEvent) => Place;

function wheeling(latest: { current: Viewport }, show: Show, place: PlaceOf): Record<string, (event: WheelEvent) => void> {
  const wheel = (event: WheelEvent): void => {
    if (!event.ctrlKey && !event.metaKey && event.timeStamp - scrolled < SCROLLING) {
      scrolled = event.timeStamp;
      return;
    }
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === 1 ? 30 : 1);
    show(zoomedAt(latest.current, Math.exp(-Math.max(-120, Math.min(120, pixels)) / 400), place(event)));
  };
  return { wheel };
}

function pointing(box: HTMLElement, latest: { current: Viewport }, show: Show, place: PlaceOf): Record<string, (event: PointerEvent) => void> {
  const fingers = new Map<number, Place>();
  let drag: Drag | undefined;
  let pinch: { view: Viewport; before: Pair } | undefined;
  // Whether two fingers were there since the first came: the one that stays does not scroll the page.
  let pinches = false;
  // One finger drags, two zoom; whichever is left goes on from where it is.
  const begin = (far: boolean): void => {
    pinches = fingers.size > 1 || (pinches && fingers.size > 0);
    const [one, other] = [...fingers.values()];
    drag = one && !other ? { at: one, view: latest.current, far } : undefined;
    pinch = one && other ? { view: latest.current, before: [one, other] } : undefined;
  };
  const pointerdown = (event: PointerEvent): void => {
    if (event.button !== 0 || (event.target as Element).closest(".minimap")) return;
    fingers.set(event.pointerId, place(event));
    begin(fingers.size > 1);
  };
  const pointermove = (event: PointerEvent): void => {
    if (!fingers.has(event.pointerId)) return;
    // It was let go outside of the drawing.
    if (event.buttons === 0) {
      fingers.delete(event.pointerId);
      begin(false);
      return;
    }
    const now = place(event);
    fingers.set(event.pointerId, now);
    if (pinch) {
      const [one, other] = [...fingers.values()];
      box.setPointerCapture(event.pointerId);
      show(pinched(pinch.view, pinch.before, [one!, other!]));
    } else if (drag) {
      const [dx, dy] = [now.x - drag.at.x, now.y - drag.at.y];
      if (!drag.far && Math.hypot(dx, dy) < STILL) return;
      if (!drag.far) box.setPointerCapture(event.pointerId);
      drag.far = true;
      show({ ...drag.view, x: drag.view.x - dx / drag.view.scale, y: drag.view.y - dy / drag.view.scale });
    }
  };
  const pointerup = (event: PointerEvent): void => {
    if (!fingers.delete(event.pointerId)) return;
    const moved = pinch !== undefined || drag?.far === true;
    begin(moved);
    // What ends a movement is no click.
    if (moved) addEventListener("click", (click) => { click.preventDefault(); click.stopPropagation(); }, { capture: true, once: true, signal: AbortSignal.timeout(50) });
  };
  const touchmove = (event: Event): void => { if (pinches) event.preventDefault(); };
  return { pointerdown, pointermove, pointerup, pointercancel: pointerup, touchmove };
}
