# perl docs/api_filter.pl HEADER: the header as Doxygen reads it, by the conventions of headroom:
# - An overload without a comment has that of the overload above it. Members with one meaning in every class have those below.
# - `//` after a member describes it, and `//` above the #ifndef of a setting describes the setting. headroom.h has /* */.
# - detail namespaces, private and protected members and specialisations of traits are left out, as in docs/reference.md.
use strict;
use warnings;
my %meaning = (
  operator => "Compares values.",
  fields => "Lists the members for states and comparisons; see state/fields.hpp.",
  not_specialized => "Marks the primary template.",
  loss_scale => "The factor for the loss, in [2^-126, 2^126].",
  adjust => "The policy after a step.",
  state_dict => "All settings and counters, for from_state_dict.",
  counter => "Steps towards the next growth.",
  policy_name => 'The text under "policy" in its state.',
  span => "Deduces the type of the elements.",
  Executor => "Refers to an object of your own.",
  (map { $_ => "As in torch.amp.GradScaler, for policies with a configuration. Throws std::invalid_argument if out of range." }
     map { ("get_$_", "set_$_") } qw(growth_factor backoff_factor growth_interval)),
  (map { $_ => "The free verb of this name, with the policy's scale." }
     qw(scale scale_in_place unscale unscale_in_place unscale_into accumulate_into unscale_and_clip_in_place)),
  (map { $_ => "As in the standard containers." } qw(data size empty begin end element_type value_type)),
  (map { $_ => "See the contract of rules in policy/dynamic.hpp." }
     qw(Config name grows back_off backs_off grow configure next_scale)),
  (map { $_ => "A member of every rule of TensorScales." } qw(State start update is_current rescale)),
  (map { $_ => "See the contract of rules in quantize/block_rules.hpp." } qw(scale_type divides passes_over_nan)),
  check => "Throws std::invalid_argument if a setting is out of range.",
);
$_ = join "", <>;
s{^((?:class|struct) \w+)\n +(: .*\{)$}{$1 $2}gm;
$meaning{scale} = $meaning{divides} if $ARGV =~ /block_rules/;
s{^(  static constexpr bool )(\w+ = \w+), (?=\w+ = \w+;$)}{$1$2;\n$1}gm;    # a comment for each
if ($ARGV =~ /\.h$/) {
  s{^/\* (?=headroom: )}{/** \@file\n * };
  s{^(typedef struct \w+ \{) /\* (.*) \*/$}{/** $2 */\n$1}gm;
  s{^(\s*)/\* (?!-)}{$1/** }gm;
  s{(?<=\S)([ \t]+)/\* }{$1/**< }g;
  print and exit;
}
s{((?:^// .*\n)+)(?=#ifndef (HEADROOM_\w+))}{"/// \@def $2\n" . $1 =~ s,^//,///,gmr}gme;
s{^#define HEADROOM_VERSION_.*\K}{  ///< a part of the version}gm;
s{^namespace detail \{.*?^\}  // namespace detail$}{}gms;
s{^ (?:private|protected):\n.*?(?=^ public:|^\};)}{}gms;
s{^  \S.*[;,\w\}][ \t]+//\K (?!NOLINT)}{/< }gm;
s{ : StepResult<void>}{};    # Doxygen takes it for recursion
print "/// \@file\n";
print <<'END' if $ARGV =~ /headroom\.hpp$/;
/// @mainpage API
/// @namespace headroom
/// Everything public.
END

my ($head, $name, $comment, $class, $hidden) = ("", "", "", 0, 0);    # head: comments and template <…> above a declaration
for (split /^/) {
  my $declares = $class ? /^  [^\s#}]/ : /^[^\s#}]/;
  if (!$hidden && ($head || $declares)) {
    $head .= $_;
    next if !$declares || m{^\s*//} || /^\s*template <.*[>,]$/;
    $hidden = !$class && /\b(?:struct|class) (?:std::)?\w+_(?:traits|limits)</;
    my $own = $hidden || $head =~ m{^\s*///|///<}m;
    my $is = /explicit \w+\(const (?:LossScale)?Config&/ ? "configure"    # the constructor of a rule
      : /\b(operator)\b/ || /using (\w+) =/ || /([\w~]+)\(/ || /(\w+)(?: =|;|\{)/ ? $1 : "";
    $comment = join "", $head =~ m{^(\s*///.*\n)}gm if $own || $is ne $name;
    $comment ||= "/// $meaning{$is}\n" if exists $meaning{$is};
    print $hidden ? "/// \@cond\n" : $own ? "" : $comment, $head;
    ($head, $name) = ("", $is);
    $class = 1 if !$hidden && /^(?:class|struct|enum) .*\{$/;
  } else {
    print;
  }
  $class = 0 if /^\}/;
  if ($hidden && /^\};|\{\};$/) { print "/// \@endcond\n"; $hidden = 0 }
}
print $head;
