//! The commands that the documents name are those that there are.

use std::path::{Path, PathBuf};

use clap::CommandFactory;

/// All documents outside of build folders.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The words after each `cargo xtask` of a text, up to the end of the code.
fn commands(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.split("cargo xtask ").skip(1).map(|rest| {
        let code = rest.split(['`', '\n', '#', '|']).next().unwrap_or_default();
        code.split_whitespace().take_while(|word| *word != "--").collect()
    })
}

#[test]
fn commands_in_the_documents_exist_with_their_flags() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut paths, mut n_commands) = (Vec::new(), 0);
    documents(&root, &mut paths);
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        for words in commands(&text) {
            let place = format!("{}: cargo xtask {}", path.display(), words.join(" "));
            let mut command = crate::Cli::command();
            for word in words {
                if let Some(flag) = word.strip_prefix("--") {
                    let flag = flag.split('=').next().unwrap_or_default();
                    let takes_any =
                        command.get_arguments().any(|arg| arg.is_allow_hyphen_values_set());
                    let is_known = command.get_arguments().any(|arg| arg.get_long() == Some(flag))
                        || flag == "help";
                    assert!(is_known || takes_any, "{place}: no flag --{flag}");
                } else if command.has_subcommands() {
                    let next = command.find_subcommand(word).cloned();
                    command = next.unwrap_or_else(|| panic!("{place}: no command {word}"));
                }
            }
            n_commands += 1;
        }
    }
    assert!(n_commands > 20, "{n_commands}");
}
