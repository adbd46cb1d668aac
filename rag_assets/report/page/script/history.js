// The primary metric over evaluations: the figure is made in Python, once for light and once for dark.

function startHistory(data) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  return () => {
    const figure = data[dark.matches && !printing ? "dark" : "light"];
    const { title, ...shape } = figure.layout;
    draw("chart-history", figure.data, { ...shape, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: layout().margin });
  };
}
