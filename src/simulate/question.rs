//! The questions of a simulated world: made of a number and a class, unlike each other, and such
//! that the shipped classifier finds the class. A question is written as it stands in a query
//! string.

use crate::model::Class;

/// A question by its number; the class is part of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Question {
    /// Unlike for unlike questions of a class.
    pub number: u64,
    /// What the classifier is to find.
    pub class: Class,
}

impl Question {
    /// Appends the question, percent-encoded.
    pub fn write(self, out: &mut Vec<u8>) {
        let (before, after): (&[u8], &[u8]) = match self.class {
            Class::Navigational => (b"", b"+login"),
            Class::Evergreen => (b"what+is+a+", b""),
            Class::Product => (b"cheapest+", b"+price"),
            Class::Longtail => (
                b"which+steps+should+an+agent+take+so+that+the+",
                b"+part+fits+into+the+whole+machine+again",
            ),
            Class::News => (b"latest+", b"+news+today"),
        };
        out.extend_from_slice(before);
        write_name(self.number, out);
        out.extend_from_slice(after);
    }
}

/// A word of syllables that no list of words knows: two letters for each digit in base 64, five
/// digits at the least.
fn write_name(mut number: u64, out: &mut Vec<u8>) {
    const CONSONANTS: [u8; 16] = *b"bdfgjkmpqvwxzhcy";
    const VOWELS: [u8; 4] = *b"aouy";
    out.push(b'x');
    for digit in 0.. {
        if number == 0 && digit >= 5 {
            return;
        }
        out.push(CONSONANTS[(number & 15) as usize]);
        out.push(VOWELS[(number >> 4 & 3) as usize]);
        number >>= 6;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::compiler::Compiler;
    use crate::head::{Head, Headers, Method};
    use crate::model::Endpoint;

    #[test]
    fn the_classifier_finds_the_class_and_no_two_are_alike() {
        let settings = crate::config::parse("", "none", &|_| None).expect("the defaults");
        let compiler = Compiler::new(&settings);
        let mut keys = BTreeSet::new();
        for class in Class::ALL {
            for number in (0..2_000).chain([u64::MAX, 1 << 40]) {
                let mut query = b"q=".to_vec();
                Question { number, class }.write(&mut query);
                let query = String::from_utf8(query).expect("ASCII");
                let head = Head {
                    method: Method::Get,
                    path: "/search/fast",
                    query: query.as_bytes(),
                    headers: Headers::default(),
                    host: b"x",
                };
                let plan = compiler.compile(Endpoint::Fast, &head, b"").expect("a plan");
                assert_eq!(plan.class, class, "{query}");
                keys.insert(plan.key.0);
            }
        }
        assert_eq!(keys.len(), 5 * 2_002);
    }
}
