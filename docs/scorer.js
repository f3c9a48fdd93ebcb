/* The order of the hits of a search: first the page or function of the name that was typed, then
   headings, then text; adapters of other libraries come last. Sphinx puts this object before its
   own search, searchtools.js, which explains the numbers. */
const typed = new URLSearchParams(window.location.search).get("q") || "";
const wanted = typed.trim().toLowerCase().replaceAll(/[ -]+/g, "_");
const LAST = /^(reference\/interop|interop$|peers$|CHANGELOG$|internals$)/;
const GUIDES = /^(which|troubleshooting|conventions|temperature)$/;

var Scorer = {
  score: ([page, title, anchor, description, score, file, kind]) => {
    if (LAST.test(page)) return score - 1000;
    const name = page.split(/[/.]/).at(-1).toLowerCase();
    const named = name === wanted ? 1000 : 0;
    const heading = kind === "title" ? 3 * score : 0;
    return named + heading + score + (GUIDES.test(page) ? 5 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
