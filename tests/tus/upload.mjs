// Uploads a file with tus-js-client, unchanged: node upload.mjs '{"endpoint": …}'
import { createReadStream, readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import { createRequire } from "node:module";

const options = JSON.parse(process.argv[2]);
const require = createRequire(`${options.packages}/`);
const tus = require("tus-js-client");

const parallel = options.parallel ?? 1;
const source = parallel > 1 ? readFileSync(options.file) : createReadStream(options.file);
const upload = new tus.Upload(source, {
  endpoint: options.endpoint,
  headers: { Authorization: `Bearer ${options.token}` },
  metadata: { filename: basename(options.file), ...options.metadata },
  ...(parallel > 1 ? {} : { uploadSize: statSync(options.file).size }),
  chunkSize: options.chunkSize ?? Infinity,
  parallelUploads: parallel,
  retryDelays: Array(1000).fill(100),
  onError(error) {
    console.error(String(error));
    process.exit(1);
  },
});
upload.start();
