//! Sections without rules of their own: where things are, what is asked for, and what the reference does not have.

use super::section;
use super::value::VersionRequest;

section! {
    /// Where the configuration and the API server are.
    Misc {
        /// The configuration file; empty for none.
        config: String = String::new(), "config",
            "The path to the configuration file.";
        /// Where to write the completed configuration instead of running; empty to run.
        write_config_to: String = String::new(), "write-config-to",
            "If set, write the configuration values to this file and exit.";
        /// The address of the API server; empty for the one of the kubeconfig.
        master: String = String::new(), "master",
            "The address of the Kubernetes API server (overrides any value in kubeconfig)";
    }
}

section! {
    /// What kube-scheduler does not have.
    Ours {
        /// What random choices follow from.
        seed: u64 = 0, "seed",
            "Decides what is random, such as the choice among equally good nodes.";
    }
}

section! {
    /// What is asked for instead of scheduling.
    Global {
        /// Whether to print the help.
        help: bool = false, "help" or 'h', "help for kube-scheduler-rs";
        /// Whether to print the version, or which one to go by.
        version: VersionRequest = VersionRequest::No, "version",
            "--version, --version=raw prints version information and quits; --version=vX.Y.Z... sets the reported version";
    }
}
