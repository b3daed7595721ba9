//! From what was listed to what readers see: judged by the pins, compiled, compared with what was known, kept.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    Catalog,
    link::Peer,
    list::{self, LARGE, Lists},
    offers::{Kind, List, Offers},
    pins::Pins,
    state::Status,
};
use crate::mcp::tools::ToolSet;

impl Catalog {
    /// Takes over what was known before the restart.
    pub(crate) async fn remember(&self) {
        let Some(kept) = &self.kept else { return };
        let Some((offers, found)) = kept.load().await else { return };
        let about = Arc::clone(&offers.about);
        let mut lists = offers.lists.map(|list| List::clone(&list));
        if let Some(pins) = self.pins.clone() {
            // The pins may be others than when it was kept, or new.
            let mut tools = std::mem::take(&mut lists[Kind::Tools as usize].items);
            let sifted = tokio::task::spawn_blocking(move || {
                pins.sift(&mut tools);
                tools
            });
            lists[Kind::Tools as usize].items = sifted.await.unwrap_or_default();
        }
        let lists = lists.map(Some);
        let known = self.digest(lists, None).await;
        let mut writing = self.writing();
        writing.status = Status::Stale;
        if self.fixed.is_none() {
            self.found.store(found.map(Arc::new));
        }
        let offers = Offers { about, lists: known.lists.map(Option::unwrap_or_default) };
        tracing::info!(
            upstream = &*self.name,
            tools = known.tools.len(),
            "lists what was known before the restart until the upstream confirms it"
        );
        self.tools.store(Arc::new(known.tools));
        self.offers.store(Arc::new(offers));
        self.changed(&mut writing);
    }

    /// Takes a `tools/list` answer, or its `result` alone, for what the upstream offers, without asking it.
    ///
    /// # Errors
    /// It is none; the text says why.
    pub async fn suppose(&self, list: &[u8]) -> Result<(), String> {
        let list = list::tools(list)?;
        let digested = self.digest([Some(list), None, None, None], None).await;
        let mut writing = self.writing();
        let lists = digested.lists.map(Option::unwrap_or_default);
        self.tools.store(Arc::new(digested.tools));
        self.offers.store(Arc::new(Offers { about: Arc::clone(&self.offers.load().about), lists }));
        self.changed(&mut writing);
        Ok(())
    }

    /// One look at the upstream has ended well.
    pub(super) async fn learned(&self, peer: &Peer, lists: Lists) {
        let digested = self.digest(lists, self.pins.clone()).await;
        if self.take(peer, digested)
            && let Some(kept) = &self.kept
        {
            kept.save(self.offers(), self.found.load_full()).await;
        }
    }

    /// Takes over what was listed; whether that, or who the upstream is, is something else than what is kept.
    fn take(&self, peer: &Peer, digested: Digested) -> bool {
        let mut writing = self.writing();
        let before = self.offers.load_full();
        let offers = Offers {
            about: Arc::clone(&peer.about),
            lists: std::array::from_fn(|n| match &digested.lists[n] {
                Some(list) if **list != *before.lists[n] => Arc::clone(list),
                _ => Arc::clone(&before.lists[n]),
            }),
        };
        let tools = Kind::Tools as usize;
        let other_tools = !writing.told || !Arc::ptr_eq(&offers.lists[tools], &before.lists[tools]);
        let same_lists = offers.lists.iter().zip(&before.lists).all(|(a, b)| Arc::ptr_eq(a, b));
        let count = digested.tools.len();
        if other_tools {
            self.tools.store(Arc::new(digested.tools));
        }
        let changed = !same_lists || !writing.told || *before.about != *offers.about;
        let was_ready = matches!(writing.status, Status::Ready { .. });
        if changed || !was_ready {
            tracing::info!(
                upstream = &*self.name,
                tools = count,
                prompts = offers.list(Kind::Prompts).items.len(),
                resources = offers.list(Kind::Resources).items.len(),
                era = peer.era.as_str(),
                version = peer.version.as_deref(),
                "learned what the upstream offers"
            );
        }
        writing.told = true;
        let withheld = digested.withheld.into();
        writing.status = Status::Ready { era: peer.era, confirmed: Instant::now(), withheld };
        if changed {
            let offers = Arc::new(offers);
            self.offers.store(offers);
            self.changed(&mut writing);
        }
        let found = self.found.load_full();
        let other = changed || writing.kept != found;
        writing.kept = found;
        other
    }

    /// Judges and compiles what was listed; away from the calls if that is much.
    async fn digest(&self, lists: Lists, pins: Option<Arc<Pins>>) -> Digested {
        let bytes: usize = lists.iter().flatten().flat_map(|l| &l.items).map(|d| d.raw.len()).sum();
        let name = Arc::clone(&self.name);
        if bytes < LARGE && pins.is_none() {
            return Digested::of(lists, None, &name);
        }
        let digested = tokio::task::spawn_blocking(move || Digested::of(lists, pins.as_deref(), &name)).await;
        digested.unwrap_or_default()
    }
}

/// What was listed, ready for use.
#[derive(Default)]
struct Digested {
    tools: ToolSet,
    lists: [Option<Arc<List>>; 4],
    withheld: Vec<String>,
}

impl Digested {
    fn of(mut lists: Lists, pins: Option<&Pins>, upstream: &str) -> Self {
        let (mut tools, mut withheld) = (ToolSet::default(), Vec::new());
        if let Some(list) = &mut lists[Kind::Tools as usize] {
            if let Some(pins) = pins {
                withheld = pins.judge(upstream, &mut list.items);
            }
            list.items.iter().for_each(|tool| tools.add(&tool.raw));
        }
        Self { tools, lists: lists.map(|list| list.map(Arc::new)), withheld }
    }
}
