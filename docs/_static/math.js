// Sphinx writes \(inline\) and \[display\] formulas into elements of class "math"; KaTeX, which lies beside this file,
// renders them. Loaded on pages with formulas only, without a network.
const folder = new URL("katex/", document.currentScript.src);

function render() {
  for (const element of document.querySelectorAll(".math")) {
    const display = element.tagName === "DIV";
    const source = element.textContent.trim().replace(/^\\[([]/, "").replace(/\\[)\]]$/, "");
    katex.render(source, element, { displayMode: display, throwOnError: false });
  }
}

const style = document.createElement("link");
style.rel = "stylesheet";
style.href = new URL("katex.min.css", folder);
const script = document.createElement("script");
script.src = new URL("katex.min.js", folder);
script.onload = render;
document.head.append(style, script);
