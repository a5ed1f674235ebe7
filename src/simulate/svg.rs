//! Line charts as SVG text, written by hand: panels beneath each other, each with axes, ticks,
//! lines and their names. Sizes are in the picture's units.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const PANEL: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 44.0;
const COLOURS: [&str; 8] =
    ["#1b6ca8", "#c0392b", "#2e8b57", "#b8860b", "#6a4c93", "#555555", "#00838f", "#ad1457"];

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name, beside the panel.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
    /// Whether it is another's figure, drawn dashed.
    pub is_dashed: bool,
}

/// One panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// What lies along the x axis.
    pub x_label: &'static str,
    /// Where the x axis is marked, and how.
    pub x_ticks: Vec<(f64, String)>,
    /// The greatest y; the least is 0.
    pub y_max: f64,
    /// What lies along the y axis.
    pub y_label: &'static str,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A picture of these panels.
pub fn picture(title: &str, panels: &[Panel]) -> String {
    let height = TOP + PANEL * panels.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    for (index, panel) in panels.iter().enumerate() {
        draw(&mut out, panel, TOP + PANEL * index as f64);
    }
    out.push_str("</svg>\n");
    out
}

/// Where a panel's values lie in the picture.
struct Frame {
    x: (f64, f64),
    y_max: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let width = WIDTH - LEFT - RIGHT;
        let across = (x - self.x.0) / (self.x.1 - self.x.0).max(1e-9);
        let up = (y / self.y_max.max(1e-9)).clamp(0.0, 1.0);
        (LEFT + across * width, self.bottom - up * (self.bottom - self.top))
    }
}

fn draw(out: &mut String, panel: &Panel, top: f64) {
    let xs = || panel.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let least = xs().fold(f64::INFINITY, f64::min);
    let most = xs().fold(f64::NEG_INFINITY, f64::max);
    if !least.is_finite() || !most.is_finite() {
        return;
    }
    let frame = Frame {
        x: (least, most),
        y_max: panel.y_max,
        top: top + 24.0,
        bottom: top + PANEL - BOTTOM,
    };
    axes(out, panel, &frame, top);
    for (index, line) in panel.lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let dash = if line.is_dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let points: Vec<String> = line
            .points
            .iter()
            .map(|&point| frame.at(point))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash} \
             points=\"{}\"/>",
            points.join(" ")
        );
        let (x, y) = (WIDTH - RIGHT + 12.0, frame.top + 12.0 + 16.0 * index as f64);
        let name = escaped(&line.name);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{name}</text>");
    }
}

fn axes(out: &mut String, panel: &Panel, frame: &Frame, top: f64) {
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{}</text>",
        top + 14.0,
        escaped(&panel.title)
    );
    for step in 0..=4 {
        let value = panel.y_max * f64::from(step) / 4.0;
        let (_, y) = frame.at((frame.x.0, value));
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            short(value)
        );
    }
    for (value, name) in &panel.x_ticks {
        let (x, _) = frame.at((*value, 0.0));
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            frame.top,
            frame.bottom,
            frame.bottom + 16.0,
            escaped(name)
        );
    }
    let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{}</text>\
         <text x=\"{}\" y=\"{}\" fill=\"#555\">{}</text>",
        frame.bottom + 32.0,
        panel.x_label,
        WIDTH - RIGHT + 12.0,
        frame.bottom,
        panel.y_label
    );
}

/// A number as short as it may be.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_within_its_panel() {
        let line = Line {
            name: "a < b".to_owned(),
            points: vec![(0.0, 0.0), (1.0, 50.0), (2.0, 900.0)],
            is_dashed: false,
        };
        let panel = Panel {
            title: "t".to_owned(),
            x_label: "x",
            x_ticks: vec![(1.0, "one".to_owned())],
            y_max: 100.0,
            y_label: "y",
            lines: vec![line],
        };
        let text = picture("a & b", &[panel.clone(), panel]);
        assert_eq!(text.matches("<polyline").count(), 2);
        assert!(text.contains("points=\"64.0,256.0 337.0,160.0 610.0,64.0\""), "{text}");
        assert!(text.contains("a &lt; b") && text.contains("a &amp; b"));
    }
}
