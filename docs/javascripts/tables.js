// A table wider than the page fades out where there is more of it, and a line says so; as in the report pages.
addEventListener("load", () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) {
    const line = document.createElement("p");
    line.className = "cue";
    line.textContent = "scroll sideways for more →";
    line.ariaHidden = true;
    box.after(line);
    const look = () => {
      const wider = box.scrollWidth - box.clientWidth;
      box.classList.toggle("more", wider - box.scrollLeft > 1);
      line.hidden = wider <= 1;
    };
    box.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(box);
  }
});
