//! What the automatic schedule decides for a kernel: by its formulas, or as a choice says.
//!
//!     T.func_attr({"irc.schedule": {"panels": 3, "rows": 4}})
//!
//! The attribute stands in a prim_func in block form. Who writes it is anyone: a user, or the pass `tuned` from what was
//! measured.

use irc_syntax::{Expr, ExprKind, Func};
use serde::{Deserialize, Serialize};

/// The attribute of a prim_func that holds its choice.
pub const ATTR: &str = "irc.schedule";

/// Choices of a kernel; what is not chosen is decided by a formula.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Results along a side of a tile of Winograd's method, 2 or 4; 0 is the direct sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winograd: Option<i64>,
    /// Rows of a register tile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<i64>,
    /// Panels of columns beside each other in a tile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panels: Option<i64>,
    /// Vectors of a panel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vectors: Option<i64>,
    /// Whether a panel goes over many tiles of rows before the next one, 1, or a tile over all panels, 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panel_outer: Option<i64>,
    /// Tiles of rows that a panel goes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<i64>,
    /// Operations that a task has at the least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grain: Option<i64>,
}

impl Choice {
    /// Everything by formula.
    pub const FORMULA: Self = Self {
        winograd: None,
        rows: None,
        panels: None,
        vectors: None,
        panel_outer: None,
        block: None,
        grain: None,
    };

    /// The names and values of what is chosen, in the order of names.
    fn parts(&self) -> [(&'static str, Option<i64>); 7] {
        [
            ("block", self.block),
            ("grain", self.grain),
            ("panel_outer", self.panel_outer),
            ("panels", self.panels),
            ("rows", self.rows),
            ("vectors", self.vectors),
            ("winograd", self.winograd),
        ]
    }

    /// Whether every number is one that a schedule can take.
    pub fn is_sound(&self) -> bool {
        let most = |name: &str| match name {
            "rows" => 32,
            "panels" => 8,
            "vectors" => 4,
            _ => 1 << 40,
        };
        self.parts().iter().all(|(name, value)| {
            value.is_none_or(|value| match *name {
                "panel_outer" => matches!(value, 0 | 1),
                "winograd" => matches!(value, 0 | 2 | 4),
                _ => (1..=most(name)).contains(&value),
            })
        })
    }

    /// This choice where it is made, the other one elsewhere.
    pub fn or(self, other: Self) -> Self {
        Self {
            winograd: self.winograd.or(other.winograd),
            rows: self.rows.or(other.rows),
            panels: self.panels.or(other.panels),
            vectors: self.vectors.or(other.vectors),
            panel_outer: self.panel_outer.or(other.panel_outer),
            block: self.block.or(other.block),
            grain: self.grain.or(other.grain),
        }
    }

    /// The dictionary of the attribute.
    pub fn to_expr(&self) -> Expr {
        let made = self.parts().into_iter();
        Expr::dict(made.filter_map(|(name, value)| Some((name.to_owned(), Expr::int(value?)))))
    }

    /// The choice of a dictionary; `None` when it holds anything else, or numbers that are not sound.
    pub fn from_expr(expr: &Expr) -> Option<Self> {
        let ExprKind::Dict(items) = &expr.kind else {
            return None;
        };
        let mut res = Self::FORMULA;
        for (name, value) in items {
            let value = Some(i64::try_from(value.as_int()?).ok()?);
            match name.as_str()? {
                "block" => res.block = value,
                "grain" => res.grain = value,
                "panel_outer" => res.panel_outer = value,
                "panels" => res.panels = value,
                "rows" => res.rows = value,
                "vectors" => res.vectors = value,
                "winograd" => res.winograd = value,
                _ => return None,
            }
        }
        res.is_sound().then_some(res)
    }

    /// The choice that a prim_func carries; by formula where it carries none that is sound.
    pub fn of(func: &Func) -> Self {
        let attr = func.attr(ATTR);
        attr.and_then(Self::from_expr).unwrap_or(Self::FORMULA)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_hold_the_same() {
        let choice = Choice {
            rows: Some(4),
            panel_outer: Some(0),
            ..Choice::FORMULA
        };
        assert_eq!(Choice::from_expr(&choice.to_expr()), Some(choice));
        let json = serde_json::to_string(&choice).expect("printed");
        assert_eq!(json, r#"{"rows":4,"panel_outer":0}"#);
        assert_eq!(serde_json::from_str::<Choice>(&json).expect("read"), choice);
        assert!(serde_json::from_str::<Choice>(r#"{"columns":4}"#).is_err());
        let broad = Choice {
            vectors: Some(9),
            ..choice
        };
        assert_eq!(Choice::from_expr(&broad.to_expr()), None);
    }
}
