// Small parts that every view is made of.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { shown } from "../data/json";
import type { Json } from "../data/types";
import { ApiError } from "../live/api";
import type { Loaded } from "../live/hooks";
import { t } from "../words/words";
import { Icon } from "./icons";
import { faultText } from "./faults";
import { setTitle } from "./title";
import type { IconName } from "./icons";

interface ButtonProps {
  onClick: () => void;
  children: ComponentChildren;
  kind?: "primary" | "danger" | "quiet" | "plain";
  icon?: IconName;
  disabled?: boolean;
  label?: string;
  hint?: string | undefined;
  describedBy?: string;
  pressed?: boolean;
  expanded?: boolean;
}

// Never a submit button: what it does is done by pressing it, not by typing elsewhere.
export function Button({ onClick, children, kind = "plain", icon, disabled = false, label, hint, describedBy, pressed, expanded }: ButtonProps): JSX.Element {
  return (
    <button type="button" class={`button ${kind}`} onClick={onClick} disabled={disabled} aria-label={label}
      title={label ?? (hint || undefined)} aria-describedby={describedBy} aria-pressed={pressed} aria-expanded={expanded}>
      {icon && <Icon name={icon} />}{children}
    </button>
  );
}

export interface Action { busy: boolean; error: ApiError | undefined; act: (work: () => Promise<unknown>) => void; clear: () => void }

// A press that takes a while and may fail.
export function useAction(): Action {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const act = (work: () => Promise<unknown>): void => {
    setBusy(true);
    setError(undefined);
    work().catch((failure: unknown) => {
      setError(failure instanceof ApiError ? failure : new ApiError(500, "page", String(failure), "", []));
    }).finally(() => setBusy(false));
  };
  return { busy, error, act, clear: () => setError(undefined) };
}

export function ErrorNote({ error, onRetry }: { error: ApiError | undefined; onRetry?: () => void }): JSX.Element | null {
  if (!error) return null;
  const told = error.offline ? "" : faultText(error.code);
  return (
    <div class="note bad" role="alert">
      <Icon name="error" />
      <div>
        <p>{error.offline ? t("app.unreachable") : told || `${t("app.error")} ${error.message}`}</p>
        {told && <p class="dim small">{error.message}</p>}
        {error.hint && <p class="dim">{error.hint}</p>}
        {error.problems.length > 0 && <ul>{error.problems.map((each) => <li>{each.message}</li>)}</ul>}
      </div>
      {onRetry && <Button onClick={onRetry}>{t("app.retry")}</Button>}
    </div>
  );
}

export function Loading(): JSX.Element {
  return <p class="loading" role="status">{t("app.loading")}</p>;
}

// What is loaded, or why it is not there yet.
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }): JSX.Element {
  if (of.value !== undefined) return <>{of.error && <ErrorNote error={of.error} onRetry={of.reload} />}{children(of.value)}</>;
  return of.error ? <ErrorNote error={of.error} onRetry={of.reload} /> : <Loading />;
}

export function Empty({ icon, title, why, children }: {
  icon: IconName; title: string; why: string; children?: ComponentChildren;
}): JSX.Element {
  return <div class="empty"><Icon name={icon} /><h2>{title}</h2><p>{why}</p>{children}</div>;
}

export function Head({ title, lead, children }: { title: string; lead?: string; children?: ComponentChildren }): JSX.Element {
  useEffect(() => setTitle(title), [title]);
  return (
    <header class="head">
      <div><h1>{title}</h1>{lead && <p class="dim">{lead}</p>}</div>
      {children && <div class="actions">{children}</div>}
    </header>
  );
}

export function Dialog({ title, onClose, children }: {
  title: string; onClose: () => void; children: ComponentChildren;
}): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={box} aria-labelledby={id} onCancel={(event) => { event.preventDefault(); onClose(); }}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

export function Confirm({ title, yes, onYes, onNo }: {
  title: string; yes: string; onYes: () => void; onNo: () => void;
}): JSX.Element {
  return (
    <Dialog title={title} onClose={onNo}>
      <div class="actions end">
        <Button onClick={onNo}>{t("app.back")}</Button>
        <Button kind="danger" onClick={onYes}>{yes}</Button>
      </div>
    </Dialog>
  );
}

export interface Tab { id: string; name: string; href: string }

export function Tabs({ tabs, current, label, small = false }: {
  tabs: Tab[]; current: string; label: string; small?: boolean;
}): JSX.Element {
  return (
    <nav class={small ? "switch" : "tabs"} aria-label={label}>
      {tabs.map((tab) => (
        <a href={tab.href} key={tab.id} aria-current={tab.id === current ? "page" : undefined}>{tab.name}</a>
      ))}
    </nav>
  );
}

export function JsonBox({ value, label }: { value: Json | undefined; label: string }): JSX.Element {
  const text = shown(value, 2);
  return <pre class="json" tabIndex={0} role="group" aria-label={label}>{text}</pre>;
}

export function Copy({ text }: { text: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  const copy = (): void => { void navigator.clipboard.writeText(text).then(() => setCopied(true)); };
  return <Button kind="quiet" icon="copy" onClick={copy}>{t(copied ? "app.copied" : "app.copy")}</Button>;
}

export function Field({ label, children, hint }: {
  label: string; hint?: string | undefined; children: (id: string) => ComponentChildren;
}): JSX.Element {
  const id = useId();
  return <div class="field"><label for={id}>{label}</label>{children(id)}{hint && <p class="dim">{hint}</p>}</div>;
}

// Enter that a person meant: one that ends a composition of an input method is not.
export function isEnter(event: KeyboardEvent): boolean {
  return event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
}

// A text that grows with what is in it.
export function Grow({ id, value, onInput, onKeyDown, placeholder, rows = 1, label, mono = false, invalid = false, focus = false }: {
  id?: string; value: string; onInput: (text: string) => void; onKeyDown?: (event: KeyboardEvent) => void;
  placeholder?: string; rows?: number; label?: string; mono?: boolean; invalid?: boolean; focus?: boolean;
}): JSX.Element {
  const box = useRef<HTMLTextAreaElement>(null);
  useEffect(() => { if (focus) box.current?.focus({ preventScroll: true }); }, []);
  useEffect(() => {
    if (!box.current) return;
    box.current.style.height = "auto";
    box.current.style.height = `${box.current.scrollHeight + 2}px`;
  }, [value]);
  return (
    <textarea ref={box} id={id} rows={rows} value={value} placeholder={placeholder} aria-label={label} class={mono ? "mono" : ""}
      aria-invalid={invalid || undefined} spellcheck={!mono}
      onInput={(event) => onInput(event.currentTarget.value)} onKeyDown={onKeyDown} />
  );
}

// Arrow keys move between the links of a list; Home and End reach its ends.
export function moveByArrows(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  const target = event.target as HTMLElement;
  if (step === undefined || !target.matches("a[data-row]")) return;
  const rows = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("a[data-row]")];
  const next = Math.min(rows.length - 1, Math.max(0, rows.indexOf(target) + step));
  rows[next]?.focus();
  event.preventDefault();
}
