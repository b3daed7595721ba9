// What the pages do by themselves: live calls, fresh panels, copying, and the light of the connect page. Everything that
// can be read is in the pages already; without this file they are read by loading them again.
//
// Texts from outside are only ever set as text, so nothing that a client sends becomes markup.
'use strict';

const ROWS = 200; // rows that the table keeps
const FLUSH = 250; // ms in which live calls are gathered
const FRESH = 5000; // ms between two looks at the panels
const SPEAK = 10000; // ms between two sentences to a screen reader

const each = (selector, act, within = document) => within.querySelectorAll(selector).forEach(act);

// A stream of events, with what to do for each; `closed` is called when the gateway will have us no longer.
function listen(address, place, on, state) {
  const source = new EventSource(`${address}${address.includes('?') ? '&' : '?'}after=${encodeURIComponent(place)}`);
  source.addEventListener('call', (event) => on.call(JSON.parse(event.data), event.lastEventId));
  source.addEventListener('lost', (event) => on.lost(Number(event.data)));
  source.addEventListener('open', () => state('live'));
  source.addEventListener('error', () => state(source.readyState === EventSource.CLOSED ? 'ended' : 'waiting'));
  return source;
}

function liveTable(section) {
  const body = section.querySelector('tbody');
  const form = section.querySelector('template').content.firstElementChild;
  const status = section.querySelector('[role=status]');
  const button = section.querySelector('[data-pause]');
  const empty = section.querySelector('.empty');
  let place = section.dataset.place;
  let waiting = [];
  let lost = 0;
  let news = 0;
  let spoken = 0;
  let source = null;
  let state = 'waiting';

  const row = (call) => {
    const made = form.cloneNode(true);
    each('[data-text]', (cell) => { cell.textContent = call[cell.dataset.text] ?? '–'; }, made);
    made.querySelector('[data-link]').setAttribute('href', call.link);
    const outcome = made.querySelector('[data-state]');
    const word = document.createElement('span');
    word.className = `state ${call.tone}`;
    word.textContent = call.outcome;
    outcome.append(word);
    if (call.reason) {
      const why = document.createElement('small');
      why.className = 'wide';
      why.textContent = call.reason;
      outcome.append(' ', why);
    }
    made.classList.add('new');
    return made;
  };

  const speak = (now) => {
    const words = { live: 'Live', waiting: 'Connecting again', ended: 'Ended: load the page again', paused: 'Paused' };
    section.dataset.state = state;
    if (!now && Date.now() - spoken < SPEAK) return;
    spoken = Date.now();
    const text = news > 0 ? `${words[state]}, ${news} new.` : `${words[state]}.`;
    if (status.textContent !== text) status.textContent = text;
    news = 0;
  };

  const flush = () => {
    if (waiting.length > 0) {
      const rows = waiting.slice(-ROWS).reverse().map(row);
      if (lost > 0) {
        const note = document.createElement('tr');
        const cell = document.createElement('td');
        cell.colSpan = 8;
        cell.className = 'lost';
        cell.textContent = `${lost} calls before this line came too fast to be shown`;
        note.append(cell);
        rows.push(note);
      }
      news += waiting.length;
      [waiting, lost] = [[], 0];
      body.prepend(...rows);
      while (body.rows.length > ROWS && !body.rows[body.rows.length - 1].contains(document.activeElement)) {
        body.rows[body.rows.length - 1].remove();
      }
      if (empty) empty.hidden = true;
    }
    speak(false);
  };

  const start = () => {
    source = listen(section.dataset.events, place, {
      call: (call, id) => { waiting.push(call); place = id; if (waiting.length > 4 * ROWS) { waiting.shift(); lost += 1; } },
      lost: (number) => { lost += number; },
    }, (now) => { const changed = state !== now; state = now; if (changed) speak(true); });
  };

  button.hidden = false;
  button.setAttribute('aria-pressed', 'false');
  button.addEventListener('click', () => {
    const pause = button.getAttribute('aria-pressed') === 'false';
    button.setAttribute('aria-pressed', String(pause));
    if (pause) {
      source.close();
      state = 'paused';
      speak(true);
    } else {
      start();
    }
  });
  start();
  setInterval(flush, FLUSH);
}

// Panels that the gateway draws: the whole page is asked for, and what is different is put in place of what is there.
// A panel that somebody is in is left alone.
function freshPanels() {
  const fetchPage = () => {
    if (document.hidden) return;
    const request = new XMLHttpRequest();
    request.open('GET', window.location.href);
    request.responseType = 'document';
    request.addEventListener('load', () => {
      if (request.status !== 200 || !request.response) return;
      each('[data-panel]', (panel) => {
        const next = request.response.getElementById(panel.id);
        if (!next || next.isEqualNode(panel)) return;
        if (panel.contains(document.activeElement) || panel.matches(':hover')) return;
        const scrolled = [...panel.querySelectorAll('.scroll')].map((part) => part.scrollLeft);
        panel.replaceChildren(...document.importNode(next, true).childNodes);
        panel.querySelectorAll('.scroll').forEach((part, at) => { part.scrollLeft = scrolled[at] ?? 0; });
      });
    });
    request.send();
  };
  setInterval(fetchPage, FRESH);
}

function copyButtons() {
  each('[data-copy]', (button) => {
    if (!navigator.clipboard) return; // only there under HTTPS and on this machine
    button.hidden = false;
    button.addEventListener('click', async () => {
      const said = button.parentElement.querySelector('[data-copied]');
      try {
        await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
        said.textContent = 'Copied.';
      } catch {
        said.textContent = 'The browser does not allow it: select the text.';
      }
      setTimeout(() => { said.textContent = ''; }, 4000);
    });
  });
}

// Turns green with the first call that came through; says so when one was turned away.
function firstCall(light) {
  const words = light.querySelector('[role=status]');
  const refused = document.getElementById('refused');
  if (light.classList.contains('good')) return;
  const source = listen(light.dataset.events, light.dataset.place, {
    call: (call) => {
      if (call.outcome === 'rejected') return;
      source.close();
      rejected.close();
      refused.hidden = true;
      light.classList.replace('waiting', 'good');
      const strong = document.createElement('strong');
      strong.textContent = 'Connected.';
      words.replaceChildren(strong, ` First call: ${call.what}${call.agent ? ` by ${call.agent}` : ''} at ${call.clock}.`);
    },
    lost: () => {},
  }, () => {});
  // Who has no valid key has no name yet, so these are looked for among all calls.
  const rejected = listen('/api/events?outcome=rejected', light.dataset.place, {
    call: (call) => {
      refused.hidden = false;
      refused.textContent = `A call was turned away at ${call.clock}: ${call.reason ?? 'refused'}${call.agent ? `, by ${call.agent}` : ''}.`;
    },
    lost: () => {},
  }, () => {});
}

each('[data-events] table.calls', (table) => liveTable(table.closest('[data-events]')));
each('#light', firstCall);
if (document.querySelector('[data-panel]')) freshPanels();
copyButtons();
