// Where the page is: every view has an address behind the `#`, and a reload shows it again.

import { useEffect, useState } from "preact/hooks";

export interface Route { parts: string[]; query: URLSearchParams }

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(query) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(parts: string[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((each): each is [string, string] => Boolean(each[1]));
  const search = new URLSearchParams(given).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

export function go(parts: string[], query: Record<string, string | undefined> = {}, replace = false): void {
  const to = link(parts, query);
  if (!replace) {
    location.hash = to;
    return;
  }
  history.replaceState(null, "", to);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = (): void => setHash(location.hash);
    addEventListener("hashchange", changed);
    changed();  // it may have changed between the first drawing and now
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parse(hash);
}
