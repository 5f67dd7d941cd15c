// Makes the pages quicker to use. Everything can be read and done without it. Each module knows its own elements and does nothing on
// pages that have none of them.

import { startFilter } from "./filter.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startOutput } from "./output.js";
import { startSelection } from "./selection.js";
import { startSmall } from "./small.js";
import { startSubmit } from "./submit.js";

startSmall();
startKeys();
startLive();
startFilter();
startSelection();
startSubmit();
startOutput();
