// Keeps the page live: the server sends the changed part as HTML, which is laid over what is there,
// node by node, so that a selection, a scrolled table and an opened detail stay as they are.
"use strict";

function alike(known, node) {
  return known.nodeType === node.nodeType && known.nodeName === node.nodeName;
}

// What came or went in between (a word of trouble) must not move its neighbours off their nodes:
// a detail laid over by a list is a closed detail. Text is looked for only where it stands, else
// the white space between two elements would find itself further on and take an element with it.
function find(known, node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return known && alike(known, node) ? known : null;
  while (known && !alike(known, node)) known = known.nextSibling;
  return known;
}

function drop(at, end) {
  while (at !== end) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function lay(now, next) {
  let at = now.firstChild;
  for (const node of [...next.childNodes]) {
    const known = find(at, node);
    if (!known) {
      now.insertBefore(node, at);
      continue;
    }
    drop(at, known);
    at = known.nextSibling;
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (known.nodeValue !== node.nodeValue) known.nodeValue = node.nodeValue;
      continue;
    }
    for (const { name } of [...known.attributes]) {
      if (!node.hasAttribute(name) && name !== "open") known.removeAttribute(name);
    }
    for (const { name, value } of node.attributes) {
      if (known.getAttribute(name) !== value) known.setAttribute(name, value);
    }
    lay(known, node);
  }
  drop(at, null);
}

const live = document.querySelector("#live[data-live]");
const state = document.querySelector("#state");

function say(word, text) {
  state.className = `state ${word}`;
  state.textContent = text;
}

if (live && window.EventSource) {
  const address = new URL(location.href);
  address.searchParams.set("live", "1");
  let source, timer;
  let patience = 10000; // milliseconds, until the server says how often it speaks

  // A peer that vanished without a word is no error of an EventSource, ever.
  function heard() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      say("off", "nothing heard, trying again");
      connect();
    }, patience);
  }

  function leave() {
    clearTimeout(timer);
    if (source) source.close();
  }

  function connect() {
    leave();
    const now = (source = new EventSource(address));
    now.addEventListener("patience", (event) => {
      patience = Number(event.data);
      heard();
    });
    now.addEventListener("still", heard);
    now.addEventListener("page", (event) => {
      const next = document.createElement("template");
      next.innerHTML = event.data;
      lay(live, next.content);
      say("on", "live");
      heard();
    });
    now.addEventListener("error", () => {
      const ended = now.readyState === EventSource.CLOSED;
      say("off", ended ? "not live" : "connection lost, trying again");
      if (!ended) return;
      // What was answered may be of a console that has just begun, or full: an EventSource ends
      // for good then, and the page would show for ever what was true before.
      clearTimeout(timer);
      timer = setTimeout(connect, 3 * patience);
    });
    heard();
  }

  connect();
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) connect(); // the Back button: as it was when it was left
  });
}
