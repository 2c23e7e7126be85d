// What the server tells about files: those of a run, and those that a call would write.

import type { Json, JsonObject, Question } from "../data/types";

export type FileKind = "picture" | "markdown" | "table" | "json" | "text" | "other";

export interface RunFile {
  path: string;
  step: string;
  at: string;
  state: "as_written" | "changed" | "gone";
  size: number;
  kind: FileKind;
}

// What the tool of a call shows; `seen` goes back with the answer.
export interface Looked { now: CallPreview | null; seen: string }

// A question with everything that it is about; of a call that a person approved, also what was seen then.
export interface WholeQuestion extends Question, Looked {
  values: Record<string, Json> | null;
  can_change: boolean;
  previewed: PreviewedCall | null;
}

// What a tool says that a call would do. What is at its default is left out.
export interface CallPreview {
  text?: string;
  rows?: JsonObject[];
  count?: number;
  files?: { path: string; change: "new" | "changed" | "same" | "deleted"; size_before?: number; size_after?: number; difference?: string[]; text?: string; is_edit?: boolean }[];
  moved?: string[];
  fails?: string;
}

export interface PreviewedCall {
  step: string;
  callee: string;
  inputs: Record<string, Json>;
  shown?: CallPreview | null;
  sources?: string[];
  times?: number;
}

export interface OpenCall { step: string; waits_for?: string[] }
