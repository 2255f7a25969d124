/** The pages of a document, as pictures that the gateway makes. Each is requested when it comes into view. */

import { thumbnail } from "../api/client.js";
import { make, makeWith } from "../ui/dom.js";
import { errorContent, isAbort } from "../api/errors.js";
import { t } from "../i18n/i18n.js";

const SIZE = 1600;
const MAX_PAGES = 500;

/** @param {string} path @param {AbortSignal} signal @param {(blob: Blob) => string} urlFor */
export async function pagesView(path, signal, urlFor) {
  /** @param {number} page */
  const load = async (page) => {
    const { blob, pages } = await thumbnail(path, { size: SIZE, page, signal });
    return { url: urlFor(blob), pages };
  };
  const { url, pages } = await load(1);
  const count = Math.min(pages, MAX_PAGES);
  const images = Array.from({ length: count }, (_, index) => make("img", { class: "page-image", alt: t("pageOf", { page: index + 1, count: pages }) }));
  images[0].src = url;
  await images[0].decode();
  const { naturalWidth, naturalHeight } = images[0];
  for (const image of images) image.style.aspectRatio = `${naturalWidth} / ${naturalHeight}`;
  /** @type {Set<HTMLImageElement>} */
  const visible = new Set();
  let busy = false;
  /** One after the other: the gateway makes the following pages, too. */
  const next = async () => {
    const image = images.find((each) => visible.has(each) && !each.src);
    if (busy || !image || signal.aborted) return;
    busy = true;
    try {
      image.src = (await load(images.indexOf(image) + 1)).url;
      await image.decode();
      image.style.aspectRatio = "auto";
    } catch (error) {
      observer.unobserve(image);
      visible.delete(image);
      if (!isAbort(error)) image.replaceWith(make("p", { class: "error" }, ...errorContent(error)));
    } finally {
      busy = false;
    }
    next();
  };
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const image = /** @type {HTMLImageElement} */ (target);
      if (isIntersecting) visible.add(image);
      else visible.delete(image);
    }
    next();
  }, { rootMargin: "200px" });
  for (const image of images.slice(1)) observer.observe(image);
  signal.addEventListener("abort", () => observer.disconnect());
  const note = count < pages ? make("p", { class: "hint" }, t("firstPages", { count })) : null;
  return makeWith("div", { class: "pages" }, [note, ...images]);
}
