// Every request of the page goes through here: same origin, JSON, and errors that say what to do.

import { fieldText, parseExactly } from "../data/json";
import type { Json, Problem } from "../data/types";
import { currentLocale } from "../words/words";

export class ApiError extends Error {
  constructor(
    readonly status: number, readonly code: string, message: string,
    readonly hint: string, readonly problems: Problem[],
  ) {
    super(message);
  }

  // The server could not be reached, which is not the same as a refusal.
  get offline(): boolean { return this.status === 0; }
}

// A browser sends its cookie to every port of the host, but only this origin can read its store.
const STORED = "plansmith-page";
const key = (): string => localStorage.getItem(STORED) ?? "";
const pageHeader = (given = key()): Record<string, string> => (given ? { "X-Plansmith-Page": given } : {});

// A log-in ends at an address with its key, which is kept if it is right.
export async function keepPageKey(): Promise<void> {
  const given = /^#login=(\w+)$/.exec(location.hash)?.[1];
  if (!given) return;
  history.replaceState(null, "", location.pathname);
  const answer = await fetch("/v1/me", { headers: pageHeader(given), cache: "no-store" }).catch(() => undefined);
  if (answer?.ok) localStorage.setItem(STORED, given);
}

// The address of what the browser itself reads: pictures, downloads, the event stream.
export const keyed = (path: string): string => (key() ? `${path}${path.includes("?") ? "&" : "?"}page_key=${key()}` : path);

interface Options { body?: unknown; headers?: Record<string, string>; accept?: string }

export async function request(method: string, path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: options.accept ?? "application/json", "Accept-Language": currentLocale(), ...pageHeader(), ...options.headers };
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (method !== "GET" && method !== "DELETE") {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(options.body ?? {});
  }
  // The same press sent twice, by us or by the network, must count once.
  if (method === "POST") headers["Idempotency-Key"] ??= crypto.randomUUID();
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new ApiError(0, "offline", "", "", []);
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

// A file goes as it is, not as JSON.
export async function upload(path: string, file: Blob): Promise<void> {
  const headers = { Accept: "application/json", "Accept-Language": currentLocale(), "Content-Type": "application/octet-stream", ...pageHeader() };
  let response: Response;
  try {
    response = await fetch(path, { method: "PUT", headers, body: file, credentials: "same-origin", cache: "no-store" });
  } catch {
    throw new ApiError(0, "offline", "", "", []);
  }
  if (!response.ok) throw await problemOf(response);
}

async function problemOf(response: Response): Promise<ApiError> {
  let told: Record<string, unknown> = {};
  try {
    told = (await response.json()) as Record<string, unknown>;
  } catch {
    // Something other than our server answered: its status is all there is to tell.
  }
  const words = (name: string): string => (typeof told[name] === "string" ? (told[name] as string) : "");
  const problems = Array.isArray(told["problems"]) ? (told["problems"] as Problem[]) : [];
  const message = words("detail") || words("title") || `HTTP ${response.status}`;
  return new ApiError(response.status, words("code"), message, words("hint"), problems);
}

// `exactly` names the fields whose numbers must come back as they were written.
export async function call<T>(method: string, path: string, options: Options & { exactly?: string[] } = {}): Promise<T> {
  const response = await request(method, path, options);
  const text = await response.text();
  if (!text) return undefined as T;
  const value = JSON.parse(text) as Record<string, Json>;
  for (const name of options.exactly ?? []) {
    const part = fieldText(text, name);
    if (part !== undefined) value[name] = parseExactly(part);
  }
  return value as T;
}

export const get = <T>(path: string, exactly?: string[]): Promise<T> => call<T>("GET", path, exactly ? { exactly } : {});
export const post = <T>(path: string, body?: unknown, exactly?: string[]): Promise<T> =>
  call<T>("POST", path, exactly ? { body, exactly } : { body });

export const runPath = (id: string, rest = ""): string => `/v1/runs/${encodeURIComponent(id)}${rest}`;
