//! Generated parts of a page: what lies between two markers is replaced, everything else stays.

use anyhow::{Result, bail};

/// `page` with `text` between `<!-- generated: NAME -->` and `<!-- end: NAME -->`.
pub fn with_generated(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- generated: {name} -->"), format!("<!-- end: {name} -->"));
    let (Some(from), Some(to)) = (page.find(&begin), page.find(&end)) else {
        bail!("the page lacks `{begin}` or `{end}`");
    };
    let from = from + begin.len();
    if to < from {
        bail!("`{end}` comes before `{begin}`");
    }
    Ok(format!(
        "{}\n\n{}\n{}",
        &page[..from],
        text.trim_end_matches('\n').to_owned() + "\n",
        &page[to..]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_markers_changes() {
        let page = "a\n<!-- generated: t -->\nold\n<!-- end: t -->\nb\n";
        let once = with_generated(page, "t", "new\n").unwrap();
        assert_eq!(once, "a\n<!-- generated: t -->\n\nnew\n\n<!-- end: t -->\nb\n");
        assert_eq!(with_generated(&once, "t", "new\n").unwrap(), once);
        assert!(with_generated(page, "other", "new").is_err());
    }
}
