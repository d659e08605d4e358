//! Parses sharding annotations as programs write them: Shardy's attributes and GSPMD's strings.

use stablehlo::{Error, ErrorKind, Result};

/// A sharding annotation whose mesh is not resolved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedSharding {
    /// `#sdy.sharding<@mesh, [{"x"}, {"y", ?}]>`.
    Axes {
        /// The symbol of a mesh, or the text of an inline mesh.
        mesh: String,
        /// The sharding of each dimension.
        dims: Vec<ParsedDim>,
        /// Axes along which the devices hold summands of the value.
        unreduced: Vec<ParsedAxis>,
    },
    /// `{devices=[2,1,2]<=[4] last_tile_dim_replicate}`.
    Tiles {
        /// The number of tiles along each dimension.
        tiles: Vec<usize>,
        /// The device of each tile in row-major order.
        devices: Vec<usize>,
        /// The meaning of each tile dimension beyond the tensor's dimensions.
        last: Vec<Subgroup>,
    },
    /// Every device holds the whole value.
    Replicated,
    /// Every device holds a summand of the value.
    Unreduced,
    /// Each device has its own value.
    Manual,
    /// Only the device with this index holds the value.
    Maximal(usize),
}

/// The relation between devices whose positions differ only along a tile dimension that does not shard the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subgroup {
    /// The devices hold the same part.
    Replicated,
    /// Each device has its own value.
    Manual,
    /// The devices hold summands of the part.
    Unreduced,
}

/// The axes along which one dimension is sharded, major first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedDim {
    /// The axes.
    pub axes: Vec<ParsedAxis>,
    /// Whether more axes may be added.
    pub open: bool,
}

/// An axis of a mesh, or a part of an axis. A part `(before, size)` has `size` coordinates, and `before` is the product
/// of the sizes of the more significant parts of the axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedAxis {
    /// The name of the whole axis.
    pub name: String,
    /// The part, or `None` for the whole axis.
    pub part: Option<(usize, usize)>,
}

/// The axes of a mesh, and its devices in row-major order of the axes. If `devices` is empty, the mesh contains the
/// devices from 0 on, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedMesh {
    /// The name and the size of each axis.
    pub axes: Vec<(String, usize)>,
    /// The ids of the devices.
    pub devices: Vec<usize>,
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, rest: text.trim() }
    }

    fn wrong<T>(&self, what: &str) -> Result<T> {
        Err(Error::new(
            ErrorKind::Attribute,
            format_args!("the sharding `{}`: expected {what} at `{}`", self.text, self.rest),
        ))
    }

    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { self.wrong(&format!("`{token}`")) }
    }

    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn number(&mut self) -> Result<usize> {
        match self.take(|c| c.is_ascii_digit()).parse() {
            Ok(number) => Ok(number),
            Err(_) => self.wrong("a number"),
        }
    }

    fn string(&mut self) -> Result<String> {
        self.expect("\"")?;
        let text = self.take(|c| c != '"').to_owned();
        self.expect("\"")?;
        Ok(text)
    }

    fn list<T>(&mut self, open: &str, close: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.eat(",") {
                self.expect(close)?;
                return Ok(items);
            }
        }
    }

    fn numbers(&mut self) -> Result<Vec<usize>> {
        self.list("[", "]", Self::number)
    }

    /// Parses `<["x"=2, "y"=2], device_ids=[0, 1, 2, 3]>`.
    fn mesh(&mut self) -> Result<ParsedMesh> {
        self.expect("<")?;
        let axes = self.list("[", "]", |r| {
            let name = r.string()?;
            r.expect("=")?;
            Ok((name, r.number()?))
        })?;
        let mut devices = Vec::new();
        if self.eat(",") {
            self.expect("device_ids")?;
            self.expect("=")?;
            devices = self.numbers()?;
        }
        self.expect(">")?;
        Ok(ParsedMesh { axes, devices })
    }

    fn axis(&mut self) -> Result<ParsedAxis> {
        let name = self.string()?;
        let mut part = None;
        if self.eat(":") {
            self.expect("(")?;
            let before = self.number()?;
            self.expect(")")?;
            part = Some((before, self.number()?));
        }
        Ok(ParsedAxis { name, part })
    }

    /// Parses `{"x", "y", ?}p1`. Ignores the priority `p1`.
    fn dim(&mut self) -> Result<ParsedDim> {
        let mut dim = ParsedDim::default();
        self.list("{", "}", |r| {
            if r.eat("?") {
                dim.open = true;
            } else {
                let axis = r.axis()?;
                dim.axes.push(axis);
            }
            Ok(())
        })?;
        if self.eat("p") {
            self.number()?;
        }
        Ok(dim)
    }

    /// Parses `<@mesh, [{"x"}], replicated={...}, unreduced={...}>`. Ignores the `replicated` axes.
    fn sharding(&mut self) -> Result<ParsedSharding> {
        self.expect("<")?;
        let mesh = if self.eat("@") {
            let quoted = self.rest.starts_with('"');
            let name = if quoted { self.string()? } else { self.take(|c| c != ',' && c != '>').to_owned() };
            format!("@{name}")
        } else {
            self.expect("mesh")?;
            let start = self.rest;
            self.mesh()?;
            start[..start.len() - self.rest.len()].to_owned()
        };
        self.expect(",")?;
        let dims = self.list("[", "]", Self::dim)?;
        let mut unreduced = Vec::new();
        while self.eat(",") {
            let word = self.take(|c| c != '=' && c != '>').trim();
            if !matches!(word, "replicated" | "unreduced") {
                return self.wrong("`replicated` or `unreduced`");
            }
            self.expect("=")?;
            let axes = self.list("{", "}", Self::axis)?;
            if word == "unreduced" {
                unreduced.extend(axes);
            }
        }
        self.expect(">")?;
        Ok(ParsedSharding::Axes { mesh, dims, unreduced })
    }

    /// Parses one of GSPMD's strings, such as `{replicated}`, `{maximal device=0}` or `{devices=[2,2]<=[4]}`.
    fn tiles(&mut self) -> Result<ParsedSharding> {
        self.expect("{")?;
        for (word, written) in [
            ("replicated", ParsedSharding::Replicated),
            ("manual", ParsedSharding::Manual),
            ("unreduced", ParsedSharding::Unreduced),
        ] {
            if self.eat(word) {
                return Ok(written);
            }
        }
        if self.eat("maximal") {
            self.expect("device")?;
            self.expect("=")?;
            return self.number().map(ParsedSharding::Maximal);
        }
        self.expect("devices")?;
        self.expect("=")?;
        let tiles = self.numbers()?;
        let count = product(&tiles).unwrap_or(usize::MAX);
        let devices = if self.eat("<=") {
            let shape = self.numbers()?;
            let permutation =
                if self.eat("T") { self.list("(", ")", Self::number)? } else { (0..shape.len()).collect() };
            match transposed_iota(&shape, &permutation) {
                Some(devices) => devices,
                None => return self.wrong("a permutation of the dimensions"),
            }
        } else {
            let mut devices = vec![self.number()?];
            while self.eat(",") {
                devices.push(self.number()?);
            }
            devices
        };
        let mut last = Vec::new();
        if self.eat("last_tile_dim_replicate") {
            last.push(Subgroup::Replicated);
        } else if self.eat("last_tile_dims") {
            self.expect("=")?;
            last = self.list("{", "}", |r| match r.take(char::is_alphabetic) {
                "manual" => Ok(Subgroup::Manual),
                "replicated" => Ok(Subgroup::Replicated),
                "unreduced" => Ok(Subgroup::Unreduced),
                _ => r.wrong("`manual`, `replicated` or `unreduced`"),
            })?;
        }
        if count != devices.len() || last.len() > tiles.len() {
            return self.wrong("as many devices as tiles");
        }
        Ok(ParsedSharding::Tiles { tiles, devices, last })
    }
}

/// Computes `iota(product).reshape(shape).transpose(permutation)`, flattened. Returns `None` if `permutation` is not a
/// permutation, or if the result would have more than 2^20 elements.
fn transposed_iota(shape: &[usize], permutation: &[usize]) -> Option<Vec<usize>> {
    let count = product(shape).filter(|&n| n <= 1 << 20)?;
    let mut sorted = permutation.to_vec();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..shape.len()) {
        return None;
    }
    let mut strides = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d];
    }
    let number = |mut at: usize| {
        let mut number = 0;
        for &d in permutation.iter().rev() {
            number += at % shape[d] * strides[d];
            at /= shape[d];
        }
        number
    };
    Some((0..count).map(number).collect())
}

/// Returns the product, or `None` on overflow.
pub fn product(numbers: &[usize]) -> Option<usize> {
    numbers.iter().try_fold(1usize, |product, &n| product.checked_mul(n))
}

/// Parses an `sdy.mesh` attribute.
pub fn mesh(text: &str) -> Result<ParsedMesh> {
    let mut reader = Reader::new(text);
    reader.eat("#sdy.");
    reader.expect("mesh")?;
    reader.mesh()
}

/// Parses the text of an inline mesh, as stored in [`ParsedSharding::Axes`].
pub fn inline_mesh(text: &str) -> Result<ParsedMesh> {
    Reader::new(text).mesh()
}

/// Parses an `sdy.sharding` attribute.
pub fn sharding(text: &str) -> Result<ParsedSharding> {
    let mut reader = Reader::new(text);
    reader.eat("#sdy.sharding");
    reader.sharding()
}

/// Parses an `sdy.sharding_per_value` attribute.
pub fn shardings(text: &str) -> Result<Vec<ParsedSharding>> {
    let mut reader = Reader::new(text);
    reader.expect("#sdy.sharding_per_value")?;
    reader.expect("<")?;
    reader.list("[", "]", |r| {
        r.eat("#sdy.sharding");
        r.sharding()
    })
}

/// Parses a `manual_axes` attribute.
pub fn manual_axes(text: &str) -> Result<Vec<String>> {
    let mut reader = Reader::new(text);
    reader.expect("#sdy<manual_axes")?;
    reader.list("{", "}", Reader::string)
}

/// Parses the mesh and the axes of `#stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name =
/// "x">]>`.
pub fn replica_group_axes(text: &str) -> Result<(String, Vec<ParsedAxis>)> {
    let mut reader = Reader::new(text);
    for token in ["#stablehlo.replica_group_mesh_axes", "<", "mesh", "="] {
        reader.expect(token)?;
    }
    reader.expect("@")?;
    let quoted = reader.rest.starts_with('"');
    let name = if quoted { reader.string()? } else { reader.take(|c| c != ',').trim().to_owned() };
    for token in [",", "axes", "="] {
        reader.expect(token)?;
    }
    let axes = reader.list("[", "]", |r| {
        for token in ["#stablehlo.axis_ref", "<", "name", "="] {
            r.expect(token)?;
        }
        let name = r.string()?;
        let mut part = None;
        if r.eat(",") {
            r.expect("sub_axis_info")?;
            r.expect("=")?;
            r.eat("#stablehlo.sub_axis_info");
            let has_brackets = r.eat("<");
            r.expect("(")?;
            let before = r.number()?;
            r.expect(")")?;
            part = Some((before, r.number()?));
            if has_brackets {
                r.expect(">")?;
            }
        }
        r.expect(">")?;
        Ok(ParsedAxis { name, part })
    })?;
    Ok((format!("@{name}"), axes))
}

/// Parses an `mhlo.sharding` string.
pub fn tiles(text: &str) -> Result<ParsedSharding> {
    Reader::new(text).tiles()
}

/// Parses the open dimensions in a custom call's configuration, such as `unspecified_dims=[0,1]`.
pub fn unspecified_dims(config: &str) -> Vec<usize> {
    let Some((_, rest)) = config.split_once("unspecified_dims=") else { return Vec::new() };
    Reader::new(rest).numbers().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(name: &str) -> ParsedAxis {
        ParsedAxis { name: name.into(), part: None }
    }

    #[test]
    fn shardy() {
        assert_eq!(
            mesh("#sdy.mesh<[\"x\"=2, \"y\"=4], device_ids=[0, 1]>").unwrap(),
            ParsedMesh { axes: vec![("x".into(), 2), ("y".into(), 4)], devices: vec![0, 1] }
        );
        let written =
            sharding("#sdy.sharding<@mesh, [{\"x\", \"y\":(2)4, ?}p1, {}, {?}], replicated={\"z\"}>").unwrap();
        let part = ParsedAxis { name: "y".into(), part: Some((2, 4)) };
        let dims = vec![
            ParsedDim { axes: vec![axis("x"), part], open: true },
            ParsedDim::default(),
            ParsedDim { axes: vec![], open: true },
        ];
        assert_eq!(written, ParsedSharding::Axes { mesh: "@mesh".into(), dims, unreduced: vec![] });
        let list =
            shardings("#sdy.sharding_per_value<[<@m, [{\"x\"}]>, <mesh<[\"x\"=2]>, [], unreduced={\"x\"}>]>").unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(
            list[1],
            ParsedSharding::Axes { mesh: "<[\"x\"=2]>".into(), dims: vec![], unreduced: vec![axis("x")] }
        );
        assert_eq!(manual_axes("#sdy<manual_axes{\"x\", \"y\"}>").unwrap(), ["x", "y"]);
        let error = sharding("#sdy.sharding<@mesh, [{x}]>").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Attribute, "{error}");
    }

    #[test]
    fn gspmd() {
        assert_eq!(tiles("{replicated}").unwrap(), ParsedSharding::Replicated);
        assert_eq!(tiles("{manual}").unwrap(), ParsedSharding::Manual);
        assert_eq!(tiles("{maximal device=2}").unwrap(), ParsedSharding::Maximal(2));
        assert_eq!(
            tiles("{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}").unwrap(),
            ParsedSharding::Tiles { tiles: vec![2, 1, 2], devices: vec![0, 2, 1, 3], last: vec![Subgroup::Replicated] }
        );
        assert_eq!(
            tiles("{devices=[1,2,2]0,1,2,3 last_tile_dims={manual, replicated}}").unwrap(),
            ParsedSharding::Tiles {
                tiles: vec![1, 2, 2],
                devices: vec![0, 1, 2, 3],
                last: vec![Subgroup::Manual, Subgroup::Replicated]
            }
        );
        assert_eq!(tiles("{unreduced}").unwrap(), ParsedSharding::Unreduced);
        assert_eq!(
            tiles("{devices=[2,2]<=[4] last_tile_dims={unreduced}}").unwrap(),
            ParsedSharding::Tiles { tiles: vec![2, 2], devices: vec![0, 1, 2, 3], last: vec![Subgroup::Unreduced] }
        );
        assert!(tiles("{devices=[2,2]<=[2,2]T(0,0)}").is_err());
        assert!(tiles("{devices=[2,2]0,1}").is_err());
        assert_eq!(unspecified_dims("unspecified_dims=[0,2]"), [0, 2]);
        assert_eq!(unspecified_dims(""), [0; 0]);
    }
}
