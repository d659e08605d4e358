//! Random programs over vectors of four integers, with loops and branches that nest and share values.

/// A generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
}

struct Writer {
    random: Random,
    text: String,
    names: usize,
}

const V: &str = "tensor<4xi32>";

impl Writer {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("%v{}", self.names)
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn pick(&mut self, values: &[String]) -> String {
        // Recent values more often, but old ones, too.
        let count = values.len();
        let recent = self.random.below(count.min(4));
        let at = if self.random.below(3) == 0 { self.random.below(count) } else { count - 1 - recent };
        values[at].clone()
    }

    fn ops(&mut self, values: &mut Vec<String>, depth: usize) {
        for _ in 0..2 + self.random.below(5) {
            match self.random.below(if depth < 3 { 14 } else { 10 }) {
                0 => self.unary("reverse", ", dims = [0] : tensor<4xi32>", values),
                1 => self.shuffled(values),
                2 => self.folded(values),
                3 | 4 => self.binary("xor", values),
                5 => self.binary("multiply", values),
                6 => self.barrier(values),
                10 | 11 => self.while_loop(values, depth),
                12 => self.branch(values, depth),
                _ => self.binary("add", values),
            }
        }
    }

    fn unary(&mut self, op: &str, rest: &str, values: &mut Vec<String>) {
        let (name, x) = (self.name(), self.pick(values));
        self.line(&format!("{name} = stablehlo.{op} {x}{rest}"));
        values.push(name);
    }

    fn binary(&mut self, op: &str, values: &mut Vec<String>) {
        let (name, x, y) = (self.name(), self.pick(values), self.pick(values));
        self.line(&format!("{name} = stablehlo.{op} {x}, {y} : {V}"));
        values.push(name);
    }

    fn barrier(&mut self, values: &mut Vec<String>) {
        let (name, x, y) = (self.name(), self.pick(values), self.pick(values));
        self.line(&format!("{name}:2 = stablehlo.optimization_barrier {x}, {y} : {V}, {V}"));
        values.extend([format!("{name}#0"), format!("{name}#1")]);
    }

    /// Through another shape and back.
    fn shuffled(&mut self, values: &mut Vec<String>) {
        let x = self.pick(values);
        let (a, b, c) = (self.name(), self.name(), self.name());
        self.line(&format!("{a} = stablehlo.reshape {x} : ({V}) -> tensor<2x2xi32>"));
        self.line(&format!("{b} = stablehlo.transpose {a}, dims = [1, 0] : (tensor<2x2xi32>) -> tensor<2x2xi32>"));
        self.line(&format!("{c} = stablehlo.reshape {b} : (tensor<2x2xi32>) -> {V}"));
        values.push(c);
    }

    /// The sum, broadcast.
    fn folded(&mut self, values: &mut Vec<String>) {
        let x = self.pick(values);
        let (zero, sum, name) = (self.name(), self.name(), self.name());
        self.line(&format!("{zero} = stablehlo.constant dense<0> : tensor<i32>"));
        self.line(&format!(
            "{sum} = stablehlo.reduce({x} init: {zero}) applies stablehlo.add across dimensions = [0]
               : ({V}, tensor<i32>) -> tensor<i32>"
        ));
        self.line(&format!("{name} = stablehlo.broadcast_in_dim {sum}, dims = [] : (tensor<i32>) -> {V}"));
        values.push(name);
    }

    fn while_loop(&mut self, values: &mut Vec<String>, depth: usize) {
        let (name, zero, counter) = (self.name(), self.name(), self.name());
        let count = 1 + self.random.below(4);
        let args: Vec<String> = (0..count).map(|_| self.name()).collect();
        let inits: Vec<String> = (0..count).map(|_| self.pick(values)).collect();
        self.line(&format!("{zero} = stablehlo.constant dense<0> : tensor<i32>"));
        let pairs: Vec<String> = args.iter().zip(&inits).map(|(arg, init)| format!("{arg} = {init}")).collect();
        let types = vec![V; count].join(", ");
        self.line(&format!(
            "{name}:{} = stablehlo.while({counter} = {zero}, {}) : tensor<i32>, {types}",
            count + 1,
            pairs.join(", ")
        ));
        let (limit, less) = (self.name(), self.name());
        let turns = self.random.below(4);
        self.line("cond {");
        self.line(&format!("{limit} = stablehlo.constant dense<{turns}> : tensor<i32>"));
        self.line(&format!(
            "{less} = stablehlo.compare LT, {counter}, {limit} : (tensor<i32>, tensor<i32>) -> tensor<i1>"
        ));
        self.line(&format!("stablehlo.return {less} : tensor<i1>\n}} do {{"));
        let mut inner = values.clone();
        inner.extend(args.iter().cloned());
        self.ops(&mut inner, depth + 1);
        let (one, next) = (self.name(), self.name());
        self.line(&format!("{one} = stablehlo.constant dense<1> : tensor<i32>"));
        self.line(&format!("{next} = stablehlo.add {counter}, {one} : tensor<i32>"));
        // Sometimes an argument, so that loops pass values through or swap them.
        let results: Vec<String> = (0..count)
            .map(|_| if self.random.below(3) == 0 { args[self.random.below(count)].clone() } else { self.pick(&inner) })
            .collect();
        self.line(&format!("stablehlo.return {next}, {} : tensor<i32>, {types}\n}}", results.join(", ")));
        values.extend((1..=count).map(|i| format!("{name}#{i}")));
    }

    fn branch(&mut self, values: &mut Vec<String>, depth: usize) {
        let (x, y) = (self.pick(values), self.pick(values));
        let (compared, sliced, predicate, name) = (self.name(), self.name(), self.name(), self.name());
        self.line(&format!("{compared} = stablehlo.compare LT, {x}, {y} : ({V}, {V}) -> tensor<4xi1>"));
        self.line(&format!("{sliced} = stablehlo.slice {compared} [1:2] : (tensor<4xi1>) -> tensor<1xi1>"));
        self.line(&format!("{predicate} = stablehlo.reshape {sliced} : (tensor<1xi1>) -> tensor<i1>"));
        self.line(&format!("{name}:2 = \"stablehlo.if\"({predicate}) ({{"));
        for branch in 0..2 {
            let mut inner = values.clone();
            self.ops(&mut inner, depth + 1);
            let (a, b) = (self.pick(&inner), self.pick(&inner));
            self.line(&format!("stablehlo.return {a}, {b} : {V}, {V}"));
            self.line(if branch == 0 { "}, {" } else { "}) : (tensor<i1>) -> (tensor<4xi32>, tensor<4xi32>)" });
        }
        values.extend([format!("{name}#0"), format!("{name}#1")]);
    }
}

pub(super) fn program(seed: u64) -> String {
    let mut writer = Writer { random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)), text: String::new(), names: 0 };
    let mut values = vec!["%x".to_owned(), "%y".to_owned(), "%z".to_owned()];
    writer.line(
        "func.func @main(
           %x: tensor<4xi32> {jax.buffer_donor = true},
           %y: tensor<4xi32> {tf.aliasing_output = 1 : i32},
           %z: tensor<4xi32>
         ) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {",
    );
    writer.ops(&mut values, 0);
    let results: Vec<String> = (0..3).map(|_| writer.pick(&values)).collect();
    writer.line(&format!("return {} : {V}, {V}, {V}\n}}", results.join(", ")));
    writer.text
}
