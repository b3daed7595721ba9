//! Everything that the members offer, under its public names: the way from a name to who has it, and the lists as
//! they are shown. Owns the collisions.
//!
//! Invariant: a name that two have is in nobody's hands: it is neither listed nor called, and the order of the members
//! decides nothing but the order of the lists.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use serde::Serialize;

use super::{Member, names::Naming, present, tasks::TASKS, template::Template};
use crate::{
    mcp::{
        json::hash::FoldState,
        tools::{Tool, ToolSet},
    },
    upstream::catalog::{About, Kind},
};

/// One thing that a member offers.
#[derive(Debug)]
pub(super) struct Entry {
    /// Name or URI in public.
    pub(super) public: Arc<str>,
    /// Name or URI at the member.
    pub(super) own: Arc<str>,
    /// Number of the member.
    pub(super) seat: usize,
    /// As clients see it.
    pub(super) definition: Box<str>,
    /// Of a tool: as the member knows it.
    pub(super) tool: Option<Arc<Tool>>,
    /// Of a tool: parameters that are filled in, with the JSON texts of name and value.
    pub(super) fixed: Box<[(String, String)]>,
    /// Of a template: what it stands for.
    template: Option<Template>,
}

/// What one member offers, presented. Made anew only when its catalog has changed.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) version: u64,
    pub(super) about: Arc<About>,
    /// Whether it declared the tasks extension.
    pub(super) tasks: bool,
    pub(super) ttl: [Option<Duration>; 4],
    pub(super) public: [bool; 4],
    entries: [Vec<Arc<Entry>>; 4],
    /// The tools as clients see them.
    shown: ToolSet,
}

/// A public name that more than one thing would have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Collision {
    /// In which list.
    pub list: Kind,
    /// The name or URI.
    pub name: String,
    /// Who would have it.
    pub upstreams: Vec<String>,
}

/// The whole.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// What the members' bell had counted before it was made.
    pub(super) rung: u64,
    pub(super) parts: Vec<Arc<Part>>,
    /// In the order of the members, and of each member's own list.
    pub(super) lists: [Vec<Arc<Entry>>; 4],
    by_name: [HashMap<Arc<str>, Arc<Entry>, FoldState>; 4],
    /// All tools, as clients see them.
    pub(super) tools: Arc<ToolSet>,
    /// Of each list as shown: equal if nothing changed.
    pub(super) digests: [u64; 4],
    pub(super) collisions: Vec<Collision>,
}

impl Part {
    pub(super) fn of(seat: usize, member: &Member, separator: &str) -> Self {
        let version = member.catalog.offers_version();
        let (offers, tools) = (member.catalog.offers(), member.catalog.tools());
        let naming = Naming { prefix: &member.prefix, separator, rename: &member.show.rename };
        let entry = |kind: Kind, own: &Arc<str>, raw: &str| -> Option<Entry> {
            let plain = |public: String, definition: String| Entry {
                public: public.into(),
                own: Arc::clone(own),
                seat,
                definition: definition.into(),
                tool: None,
                fixed: Box::default(),
                template: (kind == Kind::Templates).then(|| Template::new(own)),
            };
            match kind {
                Kind::Resources | Kind::Templates => {
                    member.show.has_resource(own).then(|| plain(own.to_string(), raw.to_owned()))
                }
                Kind::Prompts => {
                    if !member.show.has_prompt(own) {
                        return None;
                    }
                    let public = naming.prompt(own);
                    let definition = present::named(raw, &public);
                    Some(plain(public, definition))
                }
                Kind::Tools => {
                    let tool = tools.get(own).filter(|t| t.valid && member.tools.matches(own))?;
                    let public = naming.tool(own);
                    let fixed = member.show.fixed.get(&**own);
                    let definition = present::tool(raw, &public, member.show.rename.get(&**own), fixed);
                    let text = |(k, v): (&String, &serde_json::Value)| {
                        (serde_json::Value::from(k.as_str()).to_string(), v.to_string())
                    };
                    Some(Entry {
                        tool: Some(Arc::clone(tool)),
                        fixed: fixed.into_iter().flatten().map(text).collect(),
                        ..plain(public, definition)
                    })
                }
            }
        };
        let entries = Kind::ALL.map(|kind| {
            let items = offers.list(kind).items.iter();
            items.filter_map(|d| entry(kind, &d.key, &d.raw)).map(Arc::new).collect::<Vec<_>>()
        });
        let mut shown = ToolSet::default();
        entries[Kind::Tools as usize].iter().for_each(|e| shown.add(&e.definition));
        Self {
            version,
            about: Arc::clone(&offers.about),
            tasks: offers.about.extension(TASKS),
            ttl: Kind::ALL.map(|kind| offers.list(kind).ttl),
            public: Kind::ALL.map(|kind| offers.list(kind).public),
            entries,
            shown,
        }
    }
}

impl Index {
    pub(super) fn of(members: &[&Member], parts: Vec<Arc<Part>>, rung: u64) -> Self {
        let mut index = Self { parts, rung, ..Self::default() };
        for kind in Kind::ALL {
            index.merge(members, kind);
        }
        let mut tools = ToolSet::default();
        for entry in &index.lists[Kind::Tools as usize] {
            if let Some(tool) = index.parts[entry.seat].shown.get(&entry.public) {
                tools.share(Arc::clone(tool));
            }
        }
        index.tools = Arc::new(tools);
        index
    }

    fn merge(&mut self, members: &[&Member], kind: Kind) {
        let n = kind as usize;
        let mut owners: HashMap<Arc<str>, Vec<Arc<Entry>>, FoldState> = HashMap::default();
        for entry in self.parts.iter().flat_map(|part| &part.entries[n]) {
            owners.entry(Arc::clone(&entry.public)).or_default().push(Arc::clone(entry));
        }
        let mut digest = DefaultHasher::new();
        let mut reported: HashSet<&str> = HashSet::new();
        for entry in self.parts.iter().flat_map(|part| &part.entries[n]) {
            match owners.get(&entry.public).map(Vec::as_slice) {
                Some([_]) => {
                    (&entry.public, &entry.definition).hash(&mut digest);
                    self.lists[n].push(Arc::clone(entry));
                    self.by_name[n].insert(Arc::clone(&entry.public), Arc::clone(entry));
                }
                Some(several) if reported.insert(&entry.public) => self.collisions.push(Collision {
                    list: kind,
                    name: entry.public.to_string(),
                    upstreams: several.iter().map(|e| members[e.seat].name.to_string()).collect(),
                }),
                _ => {}
            }
        }
        self.digests[n] = digest.finish();
    }

    /// Who has this public name or URI.
    pub(super) fn get(&self, kind: Kind, public: &str) -> Option<&Arc<Entry>> {
        self.by_name[kind as usize].get(public)
    }

    /// Why nobody has it, if several would.
    pub(super) fn collision(&self, kind: Kind, public: &str) -> Option<&Collision> {
        self.collisions.iter().find(|c| c.list == kind && c.name == public)
    }

    /// The members whose templates stand for `uri`, the most specific alone: more than one if that does not decide.
    pub(super) fn fitting(&self, uri: &str) -> Vec<usize> {
        let mut best: BTreeMap<usize, usize> = BTreeMap::new();
        for entry in &self.lists[Kind::Templates as usize] {
            if let Some(template) = entry.template.as_ref().filter(|t| t.fits(uri)) {
                let literal = best.entry(entry.seat).or_default();
                *literal = template.literal.max(*literal);
            }
        }
        let most = best.values().max().copied();
        best.into_iter().filter(|(_, literal)| Some(*literal) == most).map(|(seat, _)| seat).collect()
    }

    /// The members that have a capability.
    pub(super) fn with_capability(&self, capability: &str) -> Vec<usize> {
        let has = |part: &Arc<Part>| part.about.capabilities.get(capability).is_some();
        self.parts.iter().enumerate().filter(|(_, part)| has(part)).map(|(seat, _)| seat).collect()
    }
}
