//! The exact search for places of a gang: backtracking over who goes where, and in which order.
//!
//! What it plays on is a [`Board`]: members by class, nodes on which one more of a class fits now, a way to place one and to
//! take the last one back. Members of a class are interchangeable. As long as no answer looks at more than the node in
//! question, members are placed class by class, the class with the fewest nodes first: the order in which they come is of no
//! consequence then. Once an answer looks further (affinity, spreading, devices), all orders are tried. Where something is
//! chosen for members on their nodes (devices), all orders are tried with the first choice alone, which is usually enough, and
//! if that leads nowhere, with all choices.
//!
//! Invariants: [`Answer::Nowhere`] is only said when everything was tried, or ruled out; what ends the search before is a
//! [`Halt`]. When the search ends with anything but [`Answer::Found`], everything that it placed is taken back. It relies on
//! this of answers that look at nothing but their node: with more pods there, a node does not begin to fit.

use rustc_hash::{FxHashMap, FxHashSet};

use kube_scheduler_framework::{NodeIdx, Status};

/// How many moves may wait to be tried, numbers of members included; and how long the notes about what failed may be.
const MAX_STORED: usize = 4_000_000;
const MAX_NOTED: usize = 8_000_000;

/// Why a search ended early.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It has cost as much as it may.
    Limit,
    /// An answer looks further than its node, or a plugin objects to a node that passed.
    LooksFurther,
    /// Something broke.
    Broken(Status),
}

/// What a search has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The members stand on the board.
    Found,
    /// They fit nowhere.
    Nowhere,
    /// They fit nowhere with the choices that were found out.
    Unknown,
}

/// Where one more member of a class fits.
#[derive(Clone, Debug)]
pub(crate) struct Choices<S> {
    /// The nodes, those to be tried first first.
    pub(crate) nodes: Vec<NodeIdx>,
    /// What placing it on one of them needs to know.
    pub(crate) state: S,
    /// Whether the answers look at nothing but their node.
    pub(crate) is_local: bool,
}

/// What came of placing a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacingResult {
    /// It is placed. What was chosen for members of a class on a node leaves the same for others if the numbers are equal.
    Placed(u32),
    /// A plugin objects now.
    Objected,
    /// There is no choice with this index.
    NoMore,
    /// Whether there is a choice with this index was not determined, because a limit was reached.
    Unknown,
}

/// The choices of some classes.
type ByClass<S> = Vec<(usize, Choices<S>)>;

/// What the search plays on.
pub(crate) trait Board {
    /// What goes from [`choices`](Self::choices) to [`place`](Self::place).
    type State: Clone;

    /// Where one more member of a class fits, as things stand.
    fn choices(&mut self, class: usize) -> Result<Choices<Self::State>, Halt>;

    /// Places a member of a class on a node, with the choice of this number, counted from 0, of what may be chosen for it there.
    fn place(
        &mut self,
        class: usize,
        at: (NodeIdx, usize),
        state: &Self::State,
    ) -> Result<PlacingResult, Halt>;

    /// Takes back what was placed last.
    fn take_back(&mut self);

    /// Whether answers that looked at nothing but their node still stand for other nodes than the one placed on last.
    fn is_still_local(&self) -> bool {
        true
    }

    /// Whether counting rules out that `needed` more of the members are placed, of which `left` are left by class.
    fn rules_out(&mut self, left: &[usize], needed: usize) -> Result<bool, Halt>;

    /// Of nodes that no class will ever be able to tell apart, one; `fits` has a bit for each class that fits on a node now,
    /// or nothing at all if that is not known.
    fn distinct(&self, nodes: Vec<NodeIdx>, fits: &FxHashMap<NodeIdx, u64>) -> Vec<NodeIdx> {
        let _ = fits;
        nodes
    }
}

/// Which members there are.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// How many members each class has.
    pub(crate) sizes: Vec<usize>,
    /// Whether it matters in which order members of these classes are placed, even if they end on the same nodes.
    pub(crate) remembers_order: Vec<bool>,
    /// Whether there may be several choices for members of these classes on a node.
    pub(crate) chooses: Vec<bool>,
    /// How many members have to be placed.
    pub(crate) needed: usize,
}

/// Looks for places.
pub(crate) fn search<B: Board>(board: &mut B, problem: &Problem) -> Result<Answer, Halt> {
    let mut ended = Search::new(board, problem, Way::ByClass).run();
    if matches!(ended, Err(Halt::LooksFurther)) {
        ended = Search::new(board, problem, Way::FirstChoices).run();
        let is_open = matches!(ended, Ok(Answer::Nowhere | Answer::Unknown));
        if is_open && problem.chooses.contains(&true) {
            ended = Search::new(board, problem, Way::AllChoices).run();
        }
    }
    ended
}

/// How a search goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Class by class: for answers that look at nothing but their node.
    ByClass,
    /// In all orders, with the first choice for each member on a node.
    FirstChoices,
    /// In all orders, with all choices.
    AllChoices,
}

/// A step that may be taken.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// A member of a class goes to a node, with the choice of this number.
    Place(usize, NodeIdx, usize),
    /// The other members of a class stay out.
    LeaveOut(usize),
}

/// A step that was taken.
#[derive(Clone, Copy, Debug)]
enum TakenStep {
    Placed,
    LeftOut { class: usize, n: usize },
}

/// A state of the board, and what may be done there.
#[derive(Debug)]
struct Frame<S> {
    /// What is still to be tried, the next one last.
    moves: Vec<Move>,
    /// By class, in order.
    states: Vec<(usize, S)>,
    taken: Option<TakenStep>,
    n_stored: usize,
}

struct Search<'b, B: Board> {
    board: &'b mut B,
    problem: &'b Problem,
    way: Way,
    left: Vec<usize>,
    /// Classes with their nodes, and the numbers of what was chosen there.
    placed: Vec<(usize, NodeIdx, u32)>,
    frames: Vec<Frame<B::State>>,
    n_stored: usize,
    /// States from which there is no way on.
    failed: FxHashSet<Box<[u32]>>,
    n_noted: usize,
    /// Whether choices may be there that were not tried.
    is_cut: bool,
}

impl<'b, B: Board> Search<'b, B> {
    fn new(board: &'b mut B, problem: &'b Problem, way: Way) -> Self {
        Self {
            board,
            problem,
            way,
            left: problem.sizes.clone(),
            placed: Vec::new(),
            frames: Vec::new(),
            n_stored: 0,
            failed: FxHashSet::default(),
            n_noted: 0,
            is_cut: false,
        }
    }

    fn run(mut self) -> Result<Answer, Halt> {
        let ended = self.explore();
        if !matches!(ended, Ok(Answer::Found)) {
            for _ in 0..self.placed.len() {
                self.board.take_back();
            }
        }
        ended
    }

    fn explore(&mut self) -> Result<Answer, Halt> {
        if self.arrive()? {
            return Ok(Answer::Found);
        }
        while let Some(next) = self.next_move() {
            let Some(next) = next else {
                self.note_failure();
                if let Some(frame) = self.frames.pop() {
                    self.n_stored -= frame.n_stored;
                }
                continue;
            };
            if self.take(next)? && self.arrive()? {
                return Ok(Answer::Found);
            }
        }
        Ok(if self.is_cut { Answer::Unknown } else { Answer::Nowhere })
    }

    /// Goes back to the latest state, and says what to try there; `None` inside when there is nothing left.
    fn next_move(&mut self) -> Option<Option<Move>> {
        let frame = self.frames.last_mut()?;
        match frame.taken.take() {
            Some(TakenStep::Placed) => {
                self.board.take_back();
                if let Some((class, ..)) = self.placed.pop() {
                    self.left[class] += 1;
                }
            }
            Some(TakenStep::LeftOut { class, n }) => self.left[class] = n,
            None => {}
        }
        Some(frame.moves.pop())
    }

    /// Takes a step, unless a plugin objects.
    fn take(&mut self, step: Move) -> Result<bool, Halt> {
        let Some(frame) = self.frames.last_mut() else { return Ok(false) };
        match step {
            Move::Place(class, node, choice) => {
                let Some((_, state)) = frame.states.iter().find(|(of, _)| *of == class) else {
                    return Ok(false);
                };
                let placing = self.board.place(class, (node, choice), state)?;
                let is_choice =
                    matches!(placing, PlacingResult::Placed(_) | PlacingResult::Objected);
                if is_choice && self.way == Way::AllChoices && self.problem.chooses[class] {
                    frame.moves.push(Move::Place(class, node, choice.saturating_add(1)));
                }
                let number = match placing {
                    PlacingResult::Placed(number) => number,
                    // One node may stand for others, and what objects was asked by nobody before: no order is ruled out.
                    PlacingResult::Objected if self.way == Way::ByClass => {
                        return Err(Halt::LooksFurther);
                    }
                    PlacingResult::Objected | PlacingResult::NoMore => return Ok(false),
                    PlacingResult::Unknown => {
                        self.is_cut = true;
                        return Ok(false);
                    }
                };
                frame.taken = Some(TakenStep::Placed);
                self.left[class] -= 1;
                self.placed.push((class, node, number));
                if self.way == Way::ByClass && !self.board.is_still_local() {
                    return Err(Halt::LooksFurther);
                }
            }
            Move::LeaveOut(class) => {
                frame.taken = Some(TakenStep::LeftOut { class, n: self.left[class] });
                self.left[class] = 0;
            }
        }
        Ok(true)
    }

    /// Finds out what can be done in the state of the board; says whether enough members are placed.
    fn arrive(&mut self) -> Result<bool, Halt> {
        let needed = self.problem.needed.saturating_sub(self.placed.len());
        if needed == 0 {
            return Ok(true);
        }
        if self.left.iter().sum::<usize>() < needed
            || self.failed.contains(&self.key())
            || self.board.rules_out(&self.left, needed)?
        {
            return Ok(false);
        }
        let frame = match self.way {
            Way::ByClass => self.by_class(needed)?,
            Way::FirstChoices | Way::AllChoices => self.in_any_order()?,
        };
        self.n_stored += frame.n_stored;
        if self.n_stored > MAX_STORED {
            return Err(Halt::Limit);
        }
        self.frames.push(frame);
        Ok(false)
    }

    /// Where members of each class that has some left fit; none of the classes that fit nowhere.
    fn all_choices(&mut self) -> Result<ByClass<B::State>, Halt> {
        let mut all = Vec::new();
        for class in 0..self.left.len() {
            if self.left[class] == 0 {
                continue;
            }
            let choices = self.board.choices(class)?;
            if self.way == Way::ByClass && !choices.is_local {
                return Err(Halt::LooksFurther);
            }
            if !choices.nodes.is_empty() {
                all.push((class, choices));
            }
        }
        Ok(all)
    }

    /// The moves of one class: what fits nowhere now never will, so the class with the fewest nodes is the one to decide about.
    fn by_class(&mut self, needed: usize) -> Result<Frame<B::State>, Halt> {
        let alive = self.all_choices()?;
        let n_left: usize = alive.iter().map(|(class, _)| self.left[*class]).sum();
        if n_left < needed {
            return Ok(Frame::new(Vec::new(), Vec::new()));
        }
        let is_last = alive.len() == 1;
        let fits = if is_last { FxHashMap::default() } else { fits_by_node(&alive) };
        let few = alive.into_iter().min_by_key(|(_, choices)| choices.nodes.len());
        let Some((class, choices)) = few else {
            return Ok(Frame::new(Vec::new(), Vec::new()));
        };
        let Choices { mut nodes, state, .. } = choices;
        if is_last {
            // Each node takes as many of the class as it takes, whatever is done elsewhere.
            nodes.truncate(1);
        } else {
            nodes = self.board.distinct(nodes, &fits);
        }
        let stays_out = !is_last && n_left - self.left[class] >= needed;
        let mut moves: Vec<Move> = stays_out.then_some(Move::LeaveOut(class)).into_iter().collect();
        moves.extend(nodes.into_iter().rev().map(|node| Move::Place(class, node, 0)));
        Ok(Frame::new(moves, vec![(class, state)]))
    }

    /// All moves of all classes.
    fn in_any_order(&mut self) -> Result<Frame<B::State>, Halt> {
        let (mut moves, mut states) = (Vec::new(), Vec::new());
        for (class, choices) in self.all_choices()? {
            let Choices { nodes, state, .. } = choices;
            moves.extend(nodes.into_iter().map(|node| Move::Place(class, node, 0)));
            states.push((class, state));
        }
        moves.reverse();
        Ok(Frame::new(moves, states))
    }

    /// Identifies a state: two states with equal keys leave the same to do. The key has the members left of each class, the
    /// class, node and choice of each placed member, sorted, and at the end those of classes for which the order of placement
    /// matters, in that order.
    fn key(&self) -> Box<[u32]> {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let entry = |(class, node, chosen): &(usize, NodeIdx, u32)| {
            [number(*class), number(node.index()), *chosen]
        };
        let in_order = |(class, ..): &&(usize, NodeIdx, u32)| self.problem.remembers_order[*class];
        let mut others: Vec<[u32; 3]> =
            self.placed.iter().filter(|placed| !in_order(placed)).map(entry).collect();
        others.sort_unstable();
        let ordered = self.placed.iter().filter(in_order).map(entry);
        let left = self.left.iter().map(|n| number(*n));
        left.chain(others.into_iter().chain(ordered).flatten()).collect()
    }

    fn note_failure(&mut self) {
        let key = self.key();
        if self.n_noted + key.len() <= MAX_NOTED {
            self.n_noted += key.len();
            self.failed.insert(key);
        }
    }
}

/// A bit by node for each of the classes that fit on it; none at all where there are too many classes for that.
fn fits_by_node<S>(alive: &[(usize, Choices<S>)]) -> FxHashMap<NodeIdx, u64> {
    let mut fits: FxHashMap<NodeIdx, u64> = FxHashMap::default();
    if alive.len() > u64::BITS as usize {
        return fits;
    }
    for (bit, (_, choices)) in alive.iter().enumerate() {
        for node in &choices.nodes {
            *fits.entry(*node).or_default() |= 1 << bit;
        }
    }
    fits
}

impl<S> Frame<S> {
    fn new(moves: Vec<Move>, states: Vec<(usize, S)>) -> Self {
        let n_stored = moves.len() + states.len();
        Self { moves, states, taken: None, n_stored }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Nodes with room in one or several boxes, and classes of members that take some of one box; of some, one of another class
    /// must be on the node before.
    #[derive(Clone, Debug)]
    struct Toy {
        free: Vec<Vec<u32>>,
        takes: Vec<u32>,
        after: Vec<Option<usize>>,
        /// Classes, nodes and boxes.
        placed: Vec<(usize, usize, usize)>,
        /// Of how many boxes it is known that there is room in them.
        n_known: usize,
        /// Nodes of whose boxes nothing is known.
        unknown: Vec<usize>,
        n_steps: usize,
        limit: usize,
        counts: bool,
        merges: bool,
        /// Where something objects once a member is placed.
        objects: Vec<usize>,
    }

    impl Toy {
        /// The boxes of a node that a member may go to.
        fn boxes(&self, class: usize, node: usize) -> Vec<usize> {
            let is_there = |other: usize| {
                self.placed.iter().any(|(class, on, _)| (*class, *on) == (other, node))
            };
            let is_allowed = self.after[class].is_none_or(is_there);
            let boxes = self.free[node].iter().enumerate();
            let fitting = boxes.filter(|(_, free)| is_allowed && self.takes[class] <= **free);
            fitting.map(|(at, _)| at).collect()
        }

        fn has_choices(&self) -> bool {
            self.free.iter().any(|boxes| boxes.len() > 1)
        }

        fn put(&mut self, class: usize, node: usize, at: usize) {
            self.free[node][at] -= self.takes[class];
            self.placed.push((class, node, at));
        }

        /// Classes and nodes.
        fn places(&self) -> Vec<(usize, usize)> {
            self.placed.iter().map(|(class, node, _)| (*class, *node)).collect()
        }
    }

    impl Board for Toy {
        type State = ();

        fn choices(&mut self, class: usize) -> Result<Choices<()>, Halt> {
            let nodes = (0..self.free.len()).filter(|node| !self.boxes(class, *node).is_empty());
            let nodes = nodes.map(NodeIdx::from_index).collect();
            let is_local = self.after[class].is_none() && !self.has_choices();
            Ok(Choices { nodes, state: (), is_local })
        }

        fn place(
            &mut self,
            class: usize,
            (node, choice): (NodeIdx, usize),
            (): &(),
        ) -> Result<PlacingResult, Halt> {
            self.n_steps += 1;
            if self.n_steps > self.limit {
                return Err(Halt::Limit);
            }
            let boxes = self.boxes(class, node.index());
            assert!(!boxes.is_empty());
            let Some(at) = boxes.get(choice).copied() else { return Ok(PlacingResult::NoMore) };
            if self.objects.contains(&node.index()) {
                return Ok(PlacingResult::Objected);
            }
            if choice >= self.n_known || self.unknown.contains(&node.index()) {
                return Ok(PlacingResult::Unknown);
            }
            self.put(class, node.index(), at);
            Ok(PlacingResult::Placed(u32::try_from(at).unwrap()))
        }

        fn take_back(&mut self) {
            let (class, node, at) = self.placed.pop().unwrap();
            self.free[node][at] += self.takes[class];
        }

        fn rules_out(&mut self, left: &[usize], needed: usize) -> Result<bool, Halt> {
            let mut takes: Vec<u32> = Vec::new();
            for (takes_each, n) in self.takes.iter().zip(left) {
                takes.extend(std::iter::repeat_n(*takes_each, *n));
            }
            takes.sort_unstable();
            let wanted: u32 = takes.iter().take(needed).sum();
            Ok(self.counts && wanted > self.free.iter().flatten().sum())
        }

        fn distinct(&self, nodes: Vec<NodeIdx>, fits: &FxHashMap<NodeIdx, u64>) -> Vec<NodeIdx> {
            let mut seen = BTreeSet::new();
            let is_new = |node: &NodeIdx| seen.insert((fits.get(node), &self.free[node.index()]));
            if self.merges { nodes.into_iter().filter(is_new).collect() } else { nodes }
        }
    }

    fn toy(free: &[u32], takes: &[u32]) -> Toy {
        Toy {
            free: free.iter().map(|free| vec![*free]).collect(),
            takes: takes.to_vec(),
            after: vec![None; takes.len()],
            placed: Vec::new(),
            n_known: usize::MAX,
            unknown: Vec::new(),
            n_steps: 0,
            limit: usize::MAX,
            counts: true,
            merges: true,
            objects: Vec::new(),
        }
    }

    fn problem(sizes: &[usize], needed: usize) -> Problem {
        let n = sizes.len();
        let (remembers_order, chooses) = (vec![false; n], vec![true; n]);
        Problem { sizes: sizes.to_vec(), remembers_order, chooses, needed }
    }

    /// Every member in every box of every node, in every order.
    fn exists(toy: &mut Toy, left: &mut [usize], needed: usize) -> bool {
        if needed == 0 {
            return true;
        }
        for class in 0..left.len() {
            for node in 0..toy.free.len() {
                let boxes = if left[class] > 0 { toy.boxes(class, node) } else { Vec::new() };
                for at in boxes {
                    toy.put(class, node, at);
                    left[class] -= 1;
                    let found = exists(toy, left, needed - 1);
                    left[class] += 1;
                    toy.take_back();
                    if found {
                        return true;
                    }
                }
            }
        }
        false
    }

    #[test]
    fn many_of_one_class_need_no_search() {
        let mut board = toy(&[9; 40], &[2]);
        assert_eq!(search(&mut board, &problem(&[160], 160)).unwrap(), Answer::Found);
        assert_eq!((board.n_steps, board.placed.len()), (160, 160));
        let mut board = Toy { counts: false, ..toy(&[9; 40], &[2]) };
        assert_eq!(search(&mut board, &problem(&[161], 161)).unwrap(), Answer::Nowhere);
        assert_eq!((board.n_steps, board.placed.len()), (160, 0));
    }

    #[test]
    fn nodes_that_stand_alike_are_one() {
        // Each node holds one pair of 3 and 2, or two of 2; there are too few for all in any combination.
        let all = problem(&[20, 21], 41);
        let mut board = Toy { counts: false, ..toy(&[5; 20], &[3, 2]) };
        assert_eq!(search(&mut board, &all).unwrap(), Answer::Nowhere);
        assert!(board.n_steps < 5_000, "{}", board.n_steps);
        let mut board =
            Toy { counts: false, merges: false, limit: 5_000, ..toy(&[5; 20], &[3, 2]) };
        assert!(matches!(search(&mut board, &all), Err(Halt::Limit)));
        assert_eq!(board.placed, [], "what was placed is taken back");
    }

    #[test]
    fn a_node_that_is_objected_to_stands_for_no_other() {
        let mut board = Toy { objects: vec![0], ..toy(&[2, 2], &[2]) };
        assert_eq!(search(&mut board, &problem(&[1], 1)).unwrap(), Answer::Found);
        assert_eq!(board.places(), [(0, 1)]);
        let mut board = Toy { objects: vec![0, 1], ..toy(&[2, 2], &[2]) };
        assert_eq!(search(&mut board, &problem(&[1], 1)).unwrap(), Answer::Nowhere);
    }

    /// The first goes to the first box, and the second has to.
    #[test]
    fn other_choices_are_tried_where_the_first_leads_nowhere() {
        let board = Toy { free: vec![vec![4, 2]], limit: 20, ..toy(&[], &[2, 3]) };
        let mut both = Toy { after: vec![None, Some(0)], ..board.clone() };
        assert_eq!(search(&mut both, &problem(&[1, 1], 2)).unwrap(), Answer::Found);
        assert_eq!(both.placed, [(0, 0, 1), (1, 0, 0)]);
        // What was not found out is not claimed.
        let mut cut = Toy { after: vec![None, Some(0)], n_known: 1, ..board.clone() };
        assert_eq!(search(&mut cut, &problem(&[1, 1], 2)).unwrap(), Answer::Unknown);
        assert_eq!((cut.placed.len(), &cut.free), (0, &board.free), "it is taken back");
        // That nothing is known of one node's choices, not even the first, keeps nothing from being tried on another.
        let free = vec![vec![4, 2], vec![4, 1]];
        let mut other = Toy { free, unknown: vec![1], limit: 40, ..both.clone() };
        (other.placed, other.n_steps) = (Vec::new(), 0);
        assert_eq!(search(&mut other, &problem(&[1, 1], 2)).unwrap(), Answer::Found);
        assert_eq!(other.placed, [(0, 0, 1), (1, 0, 0)]);
        // Where nothing is chosen, nothing else is tried.
        let mut first = Toy { after: vec![None, Some(0)], ..board };
        let problem = Problem { chooses: vec![false; 2], ..problem(&[1, 1], 2) };
        assert_eq!(search(&mut first, &problem).unwrap(), Answer::Nowhere);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_exists_is_found(
            free in prop::collection::vec(prop::collection::vec(0_u32..7, 1..3), 1..4),
            classes in prop::collection::vec((1_u32..5, 1_usize..3, prop::option::weighted(0.3, 0_usize..3)), 1..4),
            left_out in 0_usize..3,
            (counts, merges, remembers) in any::<(bool, bool, bool)>(),
        ) {
            let takes: Vec<u32> = classes.iter().map(|(takes, ..)| *takes).collect();
            let mut sizes: Vec<usize> = classes.iter().map(|(_, n, _)| *n).collect();
            let needed = sizes.iter().sum::<usize>().saturating_sub(left_out);
            let after = classes.iter().map(|(.., after)| after.filter(|after| *after < classes.len()));
            let mut board = Toy { after: after.collect(), free, counts, merges, ..toy(&[], &takes) };
            let before = board.clone();
            let problem = Problem { remembers_order: vec![remembers; sizes.len()], ..problem(&sizes, needed) };
            let answer = search(&mut board, &problem).unwrap();
            let expected = exists(&mut before.clone(), &mut sizes, needed);
            prop_assert_eq!(answer == Answer::Found, expected);
            let n_placed = if expected { needed } else { 0 };
            prop_assert_eq!(board.placed.len(), n_placed);
            prop_assert!(expected || board.free == before.free);
        }
    }
}
