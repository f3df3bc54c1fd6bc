// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scopes of a thread whose guards may be dropped in any order.

/// The library ends the scope that was begun last, so a scope whose guard is gone waits until those
/// above it have ended.
pub(crate) struct Scopes<T> {
    /// Number, what is needed to end it, and whether its guard is still there; ascending.
    stack: Vec<(u64, T, bool)>,
    begun: u64,
}

impl<T> Scopes<T> {
    pub(crate) const fn new() -> Self {
        Self { stack: Vec::new(), begun: 0 }
    }

    /// After the library has begun it; gives its number.
    pub(crate) fn begin(&mut self, scope: T) -> u64 {
        self.begun += 1;
        self.stack.push((self.begun, scope, true));
        self.begun
    }

    /// A guard is gone: the scopes that end now, innermost first.
    pub(crate) fn end(&mut self, number: u64) -> Vec<T> {
        if let Ok(index) = self.stack.binary_search_by_key(&number, |row| row.0) {
            self.stack[index].2 = false;
        }
        let live = self.stack.iter().rposition(|row| row.2).map_or(0, |index| index + 1);
        self.stack.drain(live..).rev().map(|row| row.1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outer_scope_waits_for_the_inner_ones() {
        let mut scopes = Scopes::new();
        let outer = scopes.begin("outer");
        let middle = scopes.begin("middle");
        let inner = scopes.begin("inner");
        assert!(scopes.end(outer).is_empty());
        assert_eq!(scopes.end(inner), ["inner"]);
        assert_eq!(scopes.end(middle), ["middle", "outer"]);
        assert!(scopes.end(middle).is_empty());
    }
}
