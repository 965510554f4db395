// Keeps the page live: the server sends the changed part as HTML, which is laid over what is there,
// node by node, so that a selection, a scrolled table and an opened detail stay as they are.
"use strict";

function lay(now, next) {
  const old = [...now.childNodes];
  const fresh = [...next.childNodes];
  fresh.forEach((node, place) => {
    const known = old[place];
    if (!known) now.append(node);
    else if (known.nodeType !== node.nodeType || known.nodeName !== node.nodeName) known.replaceWith(node);
    else if (node.nodeType !== Node.ELEMENT_NODE) {
      if (known.nodeValue !== node.nodeValue) known.nodeValue = node.nodeValue;
    } else {
      for (const { name } of [...known.attributes]) {
        if (!node.hasAttribute(name) && name !== "open") known.removeAttribute(name);
      }
      for (const { name, value } of node.attributes) {
        if (known.getAttribute(name) !== value) known.setAttribute(name, value);
      }
      lay(known, node);
    }
  });
  old.slice(fresh.length).forEach((node) => node.remove());
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
  const source = new EventSource(address);
  source.addEventListener("page", (event) => {
    const next = document.createElement("template");
    next.innerHTML = event.data;
    lay(live, next.content);
    say("on", "live");
  });
  source.addEventListener("error", () => {
    const ended = source.readyState === EventSource.CLOSED;
    say("off", ended ? "not live" : "connection lost, trying again");
  });
  window.addEventListener("pagehide", () => source.close());
}
