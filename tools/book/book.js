/* The switch between dark and light, the menu of narrow windows, and the search: all words must be
   in a section (search.js); a word in its heading counts more than one in its text. */
(function () {
  "use strict";
  var root = document.documentElement;
  function stored(value) {                       /* a browser may forbid storage for file:// */
    try {
      if (value === undefined) return localStorage.getItem("theme");
      localStorage.setItem("theme", value);
    } catch (e) { return null; }
  }
  var theme = stored();
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;

  function is_dark() {
    if (root.dataset.theme) return root.dataset.theme === "dark";
    return matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function count(text, word) {
    return Math.min(text.split(word).length - 1, 5);
  }

  /* How well a section answers, 0 when a word is missing. */
  function score(section, words) {
    var total = 0, heading = section.heading, text = section.text;
    for (var i = 0; i < words.length; i++) {
      var word = words[i], n = count(text, word) + 3 * count(section.page, word);
      if (heading.split(/[^\w.:]+/).indexOf(word) >= 0) n += 40;
      else if (heading.indexOf(word) >= 0) n += 20;
      if (section.terms[word]) n += 30;               /* a row of a table tells of it */
      if (n === 0) return 0;
      total += n;
    }
    if (words.length > 1 && text.indexOf(words.join(" ")) >= 0) total += 15;
    return total;
  }

  var sections = null;
  function read_sections() {
    sections = window.book.map(function (row) {
      var terms = Object.create(null);
      row[5].toLowerCase().split(" ").forEach(function (term) { terms[term] = true; });
      return { terms: terms, html: row[0], anchor: row[1], title: row[2], name: row[3], body: row[4],
               page: row[2].toLowerCase(), heading: row[3].toLowerCase(),
               text: row[4].toLowerCase() };
    });
  }

  function search(query) {
    if (!sections) read_sections();
    var words = query.toLowerCase().split(/\s+/).filter(Boolean), found = [];
    if (words.length === 0) return { words: words, found: found };
    sections.forEach(function (section) {
      var value = score(section, words);
      if (value > 0) found.push({ section: section, value: value });
    });
    found.sort(function (a, b) { return b.value - a.value; });
    return { words: words, found: found.slice(0, 20) };
  }

  /* Puts a text into an element with the words marked. */
  function put_marked(element, text, words) {
    var low = text.toLowerCase(), at = 0;
    while (at < text.length) {
      var first = text.length, length = 0;
      for (var i = 0; i < words.length; i++) {
        var p = low.indexOf(words[i], at);
        if (p >= 0 && p < first) { first = p; length = words[i].length; }
      }
      element.appendChild(document.createTextNode(text.slice(at, first)));
      if (length === 0) return;
      var mark = document.createElement("mark");
      mark.textContent = text.slice(first, first + length);
      element.appendChild(mark);
      at = first + length;
    }
  }

  function excerpt(section, words) {
    var at = -1;
    for (var i = 0; i < words.length && at < 0; i++) at = section.text.indexOf(words[i]);
    var first = Math.max(0, at - 50);
    return (first > 0 ? "…" : "") + section.body.slice(first, first + 160).replace(/\s+/g, " ");
  }

  function item_of(section, words) {
    var item = document.createElement("li"), link = document.createElement("a");
    link.href = section.html + (section.anchor ? "#" + section.anchor : "");
    var top = document.createElement("span"), below = document.createElement("small");
    put_marked(top, section.name, words);
    if (section.name !== section.title) top.append(" · " + section.title);
    put_marked(below, excerpt(section, words), words);
    link.append(top, below);
    item.append(link);
    return item;
  }

  function show(list, query) {
    var result = search(query);
    list.textContent = "";
    list.hidden = result.words.length === 0;
    result.found.forEach(function (f) { list.append(item_of(f.section, result.words)); });
    if (result.found.length === 0 && result.words.length > 0) {
      var none = document.createElement("li");
      none.className = "none";
      none.textContent = "no section has all of these words";
      list.append(none);
    }
    choose(list, 0);
  }

  function choose(list, at) {
    var links = list.querySelectorAll("a");
    links.forEach(function (a, i) { a.classList.toggle("chosen", i === at); });
    if (links[at]) links[at].scrollIntoView({ block: "nearest" });
  }

  function on_key(event, input, list) {
    var links = Array.from(list.querySelectorAll("a"));
    var at = links.findIndex(function (a) { return a.classList.contains("chosen"); });
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at += event.key === "ArrowDown" ? 1 : -1;
      choose(list, Math.max(0, Math.min(links.length - 1, at)));
    } else if (event.key === "Enter" && links[at]) {
      links[at].click();
      list.hidden = true;
    } else if (event.key === "Escape") {
      list.hidden = true;
      input.blur();
    }
  }

  document.addEventListener("DOMContentLoaded", function () {
    var input = document.getElementById("search"), list = document.getElementById("found");
    input.addEventListener("input", function () { show(list, input.value); });
    input.addEventListener("focus", function () { if (input.value) show(list, input.value); });
    input.addEventListener("keydown", function (event) { on_key(event, input, list); });
    document.addEventListener("click", function (event) {
      if (!event.target.closest(".search")) list.hidden = true;
    });
    document.addEventListener("keydown", function (event) {
      if (event.key === "/" && document.activeElement !== input) {
        event.preventDefault();
        input.focus();
      }
    });
    document.getElementById("theme").addEventListener("click", function () {
      root.dataset.theme = is_dark() ? "light" : "dark";
      stored(root.dataset.theme);
    });
    var menu = document.getElementById("menu");
    menu.addEventListener("click", function () {
      var open = document.body.classList.toggle("open");
      menu.setAttribute("aria-expanded", String(open));
    });
    var here = document.querySelector(".pages [aria-current]");
    if (here && innerWidth >= 900) {
      var pages = document.getElementById("pages");
      pages.scrollTop = Math.max(0, here.offsetTop - pages.clientHeight / 2);
    }
  });
})();
