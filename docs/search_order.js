/* The order of the search's results, from the index that Sphinx builds: a page ranks by the words of the question that its title, its
   entries of docs/in-your-words.md, its headings and its text have, a rare word more than a common one. Sphinx alone asks for every word
   and ranks a changelog like a guide. */
"use strict";
if (typeof Search !== "undefined") {
  const WEIGHTS = { title: 6, phrase: 6, entry: 5, heading: 3, text: 1 };
  // Guides answer; what is generated, measured or recorded comes after them.
  const LATER = [
    [/^(reference|decisions|measurements)\//, 0.45],
    [/^(in-your-words|house|read-the-code)$/, 0.45],
    [/^(providers\/|command-line$|sample-files$|faq$)/, 0.75],
  ];
  const QUESTION = "how what which who where when why can could do does did i my me we our you your it its from get got has have am than should so any this here".split(" ");

  const place = (name) => (LATER.find(([pattern]) => pattern.test(name)) || [null, 1])[1];
  const files = (found) => (found === undefined ? [] : Array.isArray(found) ? found : [found]);

  // Stemmed words of titles, headings and entries, read once: places {word: [[file, anchor, kind], …]}, phrases [[words, file, anchor], …].
  const read = () => {
    const { alltitles, docnames, indexentries, titles } = Search._index;
    const stemmer = new Stemmer();
    const places = new Map();
    const phrases = [];
    const note = (text, file, anchor, kind) => {
      const words = splitQuery(text.toLowerCase()).filter((each) => !stopwords.has(each)).map((each) => stemmer.stemWord(each));
      for (const word of words) {
        if (!places.has(word)) places.set(word, []);
        places.get(word).push([file, anchor, kind]);
      }
      if (words.length > 1) phrases.push([words, file, anchor]);
    };
    for (const [text, found] of Object.entries(alltitles))
      for (const [file, anchor] of found) note(text, file, anchor ? "#" + anchor : "", titles[file] === text ? "title" : "heading");
    for (const [text, found] of Object.entries(indexentries))
      if (!text.endsWith("…")) for (const [file, anchor] of found) note(text, file, anchor ? "#" + anchor : "", "entry");
    docnames.forEach((name, file) => note(name.replace(/[-/]/g, " "), file, "", "title"));
    return { places, phrases };
  };

  let index;
  const ranked = (words) => {
    index = index || read();
    const { places, phrases } = index;
    const { docnames, terms } = Search._index;
    const scores = new Map(); // file -> points of the page
    const sections = new Map(); // file -> anchor -> points of the section's own words
    for (const word of words) {
      const best = new Map(); // file -> weight
      files(terms[word]).forEach((file) => best.set(file, WEIGHTS.text));
      for (const [file, anchor, kind] of places.get(word) || []) {
        best.set(file, Math.max(best.get(file) || 0, WEIGHTS[kind]));
        if (anchor && kind !== "title") {
          const own = sections.get(file) || sections.set(file, new Map()).get(file);
          own.set(anchor, (own.get(anchor) || 0) + WEIGHTS[kind]);
        }
      }
      const rarity = Math.log(1 + docnames.length / (best.size || 1));
      best.forEach((weight, file) => {
        const found = scores.get(file) || scores.set(file, { points: 0, words: 0 }).get(file);
        found.points += weight * rarity;
        found.words += 1;
      });
    }
    for (const [phrase, file, anchor] of phrases) {
      if (!phrase.every((word) => words.includes(word))) continue;
      scores.get(file).points += WEIGHTS.phrase * phrase.length;
      if (anchor) sections.get(file)?.set(anchor, WEIGHTS.phrase * 10); // the section that the question names
    }
    return [...scores].map(([file, found]) => {
      const [anchor, own] = [...(sections.get(file) || [])].sort((a, b) => b[1] - a[1])[0] || ["", 0];
      const points = found.points * (found.words / words.length) * place(docnames[file]);
      return [file, own >= WEIGHTS.heading * 2 || (words.length === 1 && own) ? anchor : "", points];
    });
  };

  const before = Search._performSearch;
  Search._performSearch = (query, searchTerms, excludedTerms, highlightTerms, objectTerms) => {
    const stemmer = new Stemmer();
    const asked = [...searchTerms].filter((word) => !QUESTION.some((each) => stemmer.stemWord(each) === word));
    const known = asked.filter((word) => Search._index.terms[word] !== undefined || Search._index.titleterms[word] !== undefined);
    const exact = before(query, searchTerms, excludedTerms, highlightTerms, objectTerms);
    if (!known.length) return exact; // parts of words: as Sphinx has them
    const indexed = exact.filter((found) => found[6] === SearchResultKind.index);
    const first = indexed.filter((found) => found[4] === 100); // the question is a word of docs/in-your-words.md
    const row = first.length ? indexed.filter((found) => found[0] === "in-your-words").slice(-1) : []; // which says what is supported
    const entries = [...row, ...first];
    const { docnames, filenames, titles } = Search._index;
    const pages = ranked(known)
      .filter(([file]) => !entries.some((found) => found[0] === docnames[file]))
      .sort((a, b) => a[2] - b[2] || (docnames[a[0]] < docnames[b[0]] ? 1 : -1))
      .map(([file, anchor, points]) => [docnames[file], titles[file], anchor, null, points, filenames[file], SearchResultKind.text]);
    return [...pages, ...entries]; // shown from the last one
  };
}
