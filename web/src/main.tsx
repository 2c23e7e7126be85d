// The page starts here: language and colours first, then the stream, then what is shown.

import { render } from "preact";
import { App } from "./app";
import { keepPageKey } from "./live/api";
import { live } from "./live/stream";
import { applyTheme } from "./ui/theme";
import { speak, wantedLocale } from "./words/words";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/plan.css";
import "./styles/run.css";
import "./styles/views.css";
import "./styles/results.css";
import "./styles/hero.css";
import "./styles/first.css";

applyTheme();
await keepPageKey();
live.start();
await speak(wantedLocale());
render(<App />, document.getElementById("page")!);
