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

export interface FilePreview {
  path: string;
  change: "new" | "changed" | "same" | "deleted";
  size_before: number | null;
  size_after: number | null;
  kind: FileKind;
  before: string | null;
  after: string | null;
}

// What a call would do to files; `seen` goes back with the answer.
export interface FilesPreview {
  files: FilePreview[] | null;
  seen: string;
  would_fail: string;
}

// A question with everything that it is about; of a call that a person approved, also what was seen then.
export interface WholeQuestion extends Question, FilesPreview {
  values: Record<string, Json> | null;
  can_change: boolean;
  previewed: PreviewedCall | null;
  now: CallPreview | null;
}

// What a tool says that a call would do. What is at its default is left out.
export interface CallPreview {
  text?: string;
  rows?: JsonObject[];
  count?: number;
  files?: { path: string; change: FilePreview["change"]; size_before?: number; size_after?: number; difference?: string[]; text?: string; is_edit?: boolean }[];
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
