//! The examples of `grammar/README.md`: every fenced `python` block obeys the laws and is written as it prints.

use super::laws::{check_text, parse_clean};
use super::{compare_text, root};
use irc::syntax::print;
use libtest_mimic::Trial;

/// One test a block, named by its line.
pub fn trials() -> Vec<Trial> {
    let name = "grammar/README.md";
    let text = std::fs::read_to_string(root().join(name)).unwrap_or_default();
    let mut trials = Vec::new();
    let mut block: Option<(usize, String)> = None;
    for (at, line) in text.lines().enumerate() {
        match (&mut block, line) {
            (None, "```python") => block = Some((at + 2, String::new())),
            (Some(_), "```") => {
                let (line, text) = block.take().unwrap_or_default();
                let place = format!("{name}:{line}");
                trials.push(Trial::test(place.clone(), move || {
                    check_text(&text)?;
                    compare_text(&text, &print(&parse_clean(&text)?), &place, &place)
                }));
            }
            (Some((_, text)), line) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    trials
}
