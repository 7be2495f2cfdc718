//! Completion, manual and help of the real binary, under its own name and under that of a custom scheduler.

use std::process::{Command, Output};

use crate::{Files, run, stderr, stdout};

/// What bash offers for the last of `words` after it has sourced the program's script.
fn offered_by_bash(files: &Files, program: &str, script: &str, words: &[&str]) -> Vec<String> {
    let path = files.write("completion.bash", script);
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let at = words.len() - 1;
    // As bash calls the function that the script has registered.
    let test = format!(
        "source '{path}'\nregistered=$(complete -p '{program}')\nfunction=${{registered#*-F }}\nfunction=${{function%% *}}\n\
         COMP_WORDS=({})\nCOMP_CWORD={at}\n$function '{program}' \"${{COMP_WORDS[{at}]}}\" \"${{COMP_WORDS[{}]}}\" 2>/dev/null\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        quoted.join(" "),
        at - 1
    );
    let output = Command::new("bash").args(["--norc", "-c", &test]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn has(shell: &str) -> bool {
    Command::new(shell).arg("--version").output().is_ok()
}

#[test]
fn bash_completes_flags_commands_and_gates() {
    let program = "kube-scheduler-rs";
    let script = stdout(&run(&["completions", "bash"]));
    let files = Files::new();
    let cases: [(&[&str], &str); 8] = [
        (&[program, "simul"], "simulate"),
        (&[program, "--leader-elect-l"], "--leader-elect-lease-duration"),
        (&[program, "--feature-gates", "StorageCapacityS"], "StorageCapacityScoring=true"),
        (&[program, "simulate", "--expl"], "--explain"),
        (&[program, "config", "pri"], "print-defaults"),
        (&[program, "config", "check", "--stri"], "--strict"),
        (&[program, "config", "print-defaults", "--emul"], "--emulated-version"),
        (
            &[program, "config", "check", "--feature-gates", "SchedulerP"],
            "SchedulerPopFromBackoffQ=false",
        ),
    ];
    for (words, expected) in cases {
        let offered = offered_by_bash(&files, program, &script, words);
        assert!(offered.iter().any(|it| it == expected), "{words:?} offers {offered:?}");
    }
    let offered =
        offered_by_bash(&files, program, &script, &[program, "config", "check", "--seed"]);
    assert_eq!(offered, [""], "a flag of the scheduler is none of the command");
}

#[test]
fn other_shells_take_their_scripts() {
    let files = Files::new();
    let zsh = files.write("_kube-scheduler-rs", &stdout(&run(&["completions", "zsh"])));
    if has("zsh") {
        assert!(Command::new("zsh").args(["-n", &zsh]).status().unwrap().success());
    }
    let fish = files.write("it.fish", &stdout(&run(&["completions", "fish"])));
    if has("fish") {
        let test = format!("source {fish}; complete -C 'kube-scheduler-rs config check --stri'");
        let output = Command::new("fish").args(["--no-config", "-c", &test]).output().unwrap();
        assert!(stdout(&output).contains("--strict"), "{}", stdout(&output));
    }
}

/// Runs the binary under another name, as a custom scheduler has one.
fn run_as(files: &Files, name: &str, args: &[&str]) -> Output {
    let path = files.path(name);
    if std::fs::symlink_metadata(&path).is_err() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kube-scheduler-rs"), &path).unwrap();
    }
    Command::new(&path).args(args).output().unwrap()
}

#[test]
fn a_scheduler_of_another_name_speaks_of_itself() {
    let files = Files::new();
    let name = "my-own-scheduler";
    let said = |args: &[&str]| stdout(&run_as(&files, name, args));
    let script = said(&["completions", "bash"]);
    let offered = offered_by_bash(&files, name, &script, &[name, "config", "check", "--stri"]);
    assert_eq!(offered, ["--strict"]);
    for (args, needed) in [
        (&["--help"][..], "  my-own-scheduler [flags]\n"),
        (&["simulate", "--help"], "Usage: my-own-scheduler simulate"),
        (&["man"], ".TH my-own-scheduler 1"),
        (&["completions", "zsh"], "#compdef my-own-scheduler"),
        (&["completions", "fish"], "complete -c my-own-scheduler"),
    ] {
        let text = said(args);
        assert!(text.contains(needed), "{args:?} does not say {needed:?}: {text:.300}");
        assert!(!text.contains("kube-scheduler-rs [flags]"), "{args:?}");
    }
    let directory = files.path("man");
    assert_eq!(run_as(&files, name, &["man", "--out", &directory]).status.code(), Some(0));
    for page in ["my-own-scheduler.1", "my-own-scheduler-config-check.1"] {
        assert!(std::fs::metadata(format!("{directory}/{page}")).is_ok(), "{page}");
    }
}

#[test]
fn the_manual_has_its_version() {
    let page = stdout(&run(&["man"]));
    let version = env!("CARGO_PKG_VERSION");
    let title = page.lines().find(|line| line.starts_with(".TH")).unwrap();
    assert!(title.contains(version), "{title}");
}

#[cfg(unix)]
#[test]
fn under_the_name_of_a_kubectl_plugin_it_answers_questions() {
    let files = Files::new();
    let plugin = files.path("kubectl-scheduler");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kube-scheduler-rs"), &plugin).unwrap();
    let cluster = files.write(
        "cluster.yaml",
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 4, pods: 10}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c}]}\n",
    );
    let answer =
        Command::new(&plugin).args(["explain", "default/web", "-f", &cluster]).output().unwrap();
    assert_eq!(answer.status.code(), Some(0), "{}", String::from_utf8_lossy(&answer.stderr));
    assert!(stdout(&answer).starts_with("default/web: fits, on n1"), "{}", stdout(&answer));
    // It never becomes a scheduler, whose flags are no use to who asks.
    let called = |args: &[&str]| Command::new(&plugin).args(args).output().unwrap();
    let help = called(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let questions = stdout(&help);
    for needed in ["\n  kubectl scheduler COMMAND", "\n  explain        Say why", "\n  drain  "] {
        assert!(questions.contains(needed), "{needed:?} is not in {questions}");
    }
    assert!(!questions.contains("--leader-elect"), "{questions}");
    for args in [&[][..], &["explian", "web"], &["--kubeconfig", "x"]] {
        let refused = called(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(refused.stdout.is_empty() && stderr(&refused).ends_with(&questions), "{args:?}");
    }
    assert!(stdout(&called(&["queue", "--help"])).contains("Usage: kubectl scheduler queue"));
}
