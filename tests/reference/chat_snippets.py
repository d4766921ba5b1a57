"""Templates of one feature each, and the variables that they see."""

VARIABLES = {
    "s": "Hello, World", "t": "  padded\t", "u": "straße ǆ", "n": 5, "m": -2, "f": 0.1, "yes": True, "nothing": None, "big": 1e16, "loop_count": 3,
    "l": ["b", "a", "C"], "d": {"k": "v", "n": 1, "items": "shadowed", "nested": {"x": [1, 2]}},
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "bye", "extra": 1}],
    "bos_token": "<s>",
}

EXPRESSIONS = """
1 + 2 * 3|
(1 + 2) * 3|
2 ** 3 ** 2|
-2 ** 2|
7 // 2|
-7 // 2|
-7 % 3|
7 % -3|
-7.5 % 2|
1 / 0|
1 // 0|
1e16|
1e15|
1.5e-7|
0.1 + 0.2|
1e22|
123456789.125|
n + yes|
yes + yes|
1 == 1.0|
9007199254740993 == 9007199254740992.0|
9007199254740993 > 9007199254740992.0|
9007199254740992.0 <= 9007199254740993|
1.0 // 0.1|
0 ** -1|
0.0 // -3|
' 12 '|int|
'1__0'|int|
'1_e5'|float|
'1e3'|int|
'+-5'|int|
'0x1F'|int(base=16)|
'012'|int(base=0)|
'7'|int(base=99)|
'inf'|int(3)|
'nan(1)'|float|
'1e400'|float|
'٣'|int|
'1' == 1|
none|
not true|
not n > 3|
n > 3 and m < 0|
'' and 'x'|
1 < 2 < 3|
1 < 3 < 2|
1 < 2 == true|
'a' < 'b'|
'a' < 1|
[1, 2] < [1, 3]|
n in [1, 5]|
'ell' in s|
'x' not in s|
1 in s|
'k' in d|
missing|
missing.x|
missing + 1|
missing ~ 1|
missing == missing2|
missing in l|
'a' in missing|
s.missing|
s.missing.more|
d.k|
d['k']|
d['items']|
d.keys()|list|
d.values()|list|
d.get('k')|
d.get('z')|
d.get('z', 'w')|
d.nested.x[1]|
d.nested.x.1|
d['nested']['x'][-1]|
l[0]|
l[-1]|
l[7]|
l[7] is defined|
l[1:]|
l[:-1]|
l[::-1]|
l[::2]|
s[0]|
s[-1]|
s[1:4]|
s[::-1]|
s[100]|
s[2:100]|
'äöü🙂x'[1:4]|
'äöü🙂x'[3]|
'äöü🙂x'|length|
d[1:2]|
n[0]|
'a' 'b'|
"a\\tb\\n"|
'\\x41\\u00e9\\101\\q'|
'it\\'s'|
'%s and %d' % ('x', 3)|
'%5.2f|%-4s|%r' % (1.234, 'a', 'b')|
'%s' % 5|
'%d' % 'x'|
'{} {}'.format('a', 1)|
'{0}{1}{0}'.format('a', 1)|
'{x}'.format(x=3)|
3 * 'ab'|
[1] * 2|
[1, 'a', none, true, 1.5, [2], {'k': (1,)}]|
(1, 2)|
(1,)|
()|
{'a': 1, 'b': "it's"}|
{1: 2}[1]|
"it's"|list|
['it\\'s', 'say "x"', '\\n', 'é', '\\x07']|
[1, 2,]|
l + ['d']|
l + 'd'|
l + (1,)|
s + 1|
s ~ 1 ~ none|
s if yes|
s if not yes|
s if not yes else t|
'a' if nothing else 'b' if yes else 'c'|
-n|abs|
-(n)|
+n|
- - n|
s is string|
s is not string|
n is number and n is integer|
yes is number|
yes is integer|
yes is boolean|
f is float|
nothing is none|
missing is undefined|
d is mapping|
l is sequence|
s is sequence|
s is iterable|
n is iterable|
d is iterable|
missing is iterable|
missing is sequence|
n is odd|
n is even|
n is divisibleby 5|
n is divisibleby(2)|
n is eq 5|
n is equalto 5|
n is in [5]|
n is not in [5]|
n is ge 5|
n is lessthan 3|
'A' is upper|
'a' is lower|
none is sameas none|
true is true|
1 is true|
false is false|
range is callable|
s is nonsense|
s|nonsense|
s|upper|
s|lower|
u|upper|
'o\\'neil and co'|title|
'o\\'neil and co'.title()|
s|capitalize|
'HELLO wORLD'|capitalize|
t|trim|
'xxaxx'|trim('x')|
s|length|
d|length|
n|length|
missing|length|
s|replace('l', 'L')|
s|replace('l', 'L', 1)|
s|replace('', '-')|
nothing|replace('o', 'x')|
l|join|
l|join(', ')|
[1, none, 'a']|join('-')|
messages|join(',', attribute='role')|
messages|map(attribute='role')|join(' ')|
messages|map(attribute='extra', default='-')|list|
l|map('upper')|list|
l|map('replace', 'a', 'z')|list|
messages|selectattr('role', 'equalto', 'user')|list|length|
messages|selectattr('extra', 'defined')|list|
messages|selectattr('content')|list|
messages|rejectattr('role', '==', 'user')|map(attribute='role')|first|
[0, 1, 2]|select|list|
[0, 1, 2]|reject|list|
[0, 1, 2]|select('odd')|list|
[0, 1, 2]|select('gt', 1)|list|
l|first|
l|last|
[]|first|
[]|last is defined|
s|first|
s|last|
s|list|
s|reverse|
l|reverse|list|
l|sort|
l|sort(reverse=true)|
l|sort(case_sensitive=true)|
messages|sort(attribute='content')|map(attribute='content')|list|
[1, 'a']|sort|
d|dictsort|
{'b': 1, 'A': 2}|dictsort(by='value', reverse=true)|
l|unique|list|
['a', 'A', 'b']|unique|list|
[3, 1, 2]|max|
[3, 1, 2]|min|
[]|max|
[1, 2.5]|sum|
[]|sum|
messages|sum(attribute='n')|
d|items|list|
missing|items|list|
s|default('x')|
missing|default('x')|
missing|d('x')|
''|default('x', true)|
none|default('x')|
none|default('x', boolean=true)|
missing.x|default('x')|
'42'|int|
'4.7'|int|
'x'|int|
'x'|int(7)|
'ff'|int(base=16)|
4.7|int|
-4.7|int|
none|int|
missing|int|
'1.5'|float|
'x'|float|
3|float|
-3|abs|
2.5|round|
3.5|round|
2.456|round(2)|
2.4|round(method='ceil')|
7|round|
n|string|
d|string|
d|tojson|
d|tojson(indent=2)|
d|tojson(indent=4, sort_keys=true)|
d|tojson(separators=(',', ':'))|
'é"<>&\\n\\u2028'|tojson|
'é🙂\\x7f'|tojson(ensure_ascii=true)|
[]|tojson(indent=2)|
[1.0, 1e-7, none, true]|tojson|
(1, 2)|tojson|
missing|tojson|
{1: 2, none: 3}|tojson|
s|safe|
'<'|safe + '>' ~ '&'|
'<' + 'a'|safe|
('<'|safe + "'") + '"<'|
s|indent|
'a\\nb\\n\\nc'|indent(2)|
'a\\nb\\n\\nc'|indent(2, true)|
'a\\n\\nb'|indent('> ', true, true)|
'a\\nb\\n'|indent|
'a b  c'|wordcount|
'ab'|center(7)|
'abc'|center(6)|
'%s-%s'|format('a', 1)|
s|trim|upper|length|
s.upper()|
s.lower().title()|
t.strip()|
t.lstrip()|
t.rstrip()|
'xyaxy'.strip('xy')|
'<think>a</think>b'.split('</think>')|
'a,b,c'.split(',', 1)|
'a,b,c'.rsplit(',', 1)|
' a  b '.split()|
' a  b c '.split(none, 1)|
'a'.split('')|
'a,b,c'.split(',')[-1]|
'a\\nb\\r\\nc'.splitlines()|
'a\\nb\\n'.splitlines(true)|
s.startswith('Hell')|
s.startswith(('x', 'H'))|
s.endswith('d')|
s.startswith('ell', 1)|
s.find('o')|
s.rfind('o')|
s.find('zz')|
s.index('W')|
s.index('zz')|
s.count('l')|
s.replace('l', 'L')|
s.replace('l', 'L', 2)|
', '.join(l)|
', '.join([1])|
'²'.isdigit()|
'a1'.isalnum()|
' '.isspace()|
''.isspace()|
'Ab'.isupper()|
'Title Case'.istitle()|
'a=b=c'.partition('=')|
'a=b=c'.rpartition('=')|
'abc'.partition('x')|
'prefix-x'.removeprefix('prefix-')|
'x.txt'.removesuffix('.txt')|
'7'.zfill(3)|
'-7'.zfill(4)|
'a'.ljust(3) ~ '|'|
'a'.rjust(3, '*')|
'abc'.swapcase()|
'ßa'.upper()|
'ÀÉ'.lower()|
'ΑΣ'.lower()|
l.index('a')|
l.count('a')|
l.append('x')|
d.update({'z': 1})|
d.copy()|
s.nonsense()|
n()|
missing()|
range(3)|list|
range(1, 7, 2)|list|
range(3, 0, -1)|list|
range(1000000)|list|
range('a')|
dict(a=1, b=2)|
dict({'a': 1}, b=2)|
namespace(a=1).a|
strftime_now('%d %B %Y')|
strftime_now('%Y-%m-%d')|
raise_exception('no')|
s.upper(|
s[|
1 +|
{'a' 1}|
s|upper lower|
(s|
s.1|
a.b.c|
1 if|
not|
n is|
1_000|
'a' ~ 'b' + 'c'|
2 * 3 ~ 4 + 1|
'abc'[1]|
true and false or true|
[1,2,3][1:]|length|
{'a': [1, 2]}['a'][0]|
[[1, 2], [3]]|map('sum')|list|
[{'a': {'b': 1}}]|map(attribute='a.b')|list|
[[1, 2], [3, 4]]|map(attribute=1)|list|
['a', 'b']|map('upper')|map('lower')|join|
'a'|upper is upper|
n == 5 is true|
"<|im_start|>" + 'x' + "<|im_end|>"|
"""

BLOCKS = [
    "a\n{% if yes %}\nb\n{% endif %}\nc\n", "a\n  {% if yes %}\n  b\n  {% endif %}\nc", "a {% if yes %} b {% endif %} c",
    "a {%- if yes -%} b {%- endif -%} c", "a {{- s -}} b", "a\n{{ s }}\nb\n\n", "a\n  {{ s }}  \n b", "{% if yes +%}\nx{% endif %}",
    "a\n   {%+ if yes %}x{% endif %}", "{# note #}\nx", "x {#- note -#} y", "a\r\nb\rc", "{% raw %}{{ s }}{% endraw %}", "{%- raw -%} {{ s }} {%- endraw -%} x",
    "a\n  {% raw %}\n {% x %}{% endraw %}\nb", "{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}\n{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}", "{% for x in [] %}x{% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}", "{% for c in s %}{{ c }}.{% endfor %}", "{% for x in missing %}x{% else %}none{% endfor %}", "{% for x in nothing %}x{% endfor %}",
    "{% for x in n %}x{% endfor %}", "{% for a, b in [[1, 2], [3]] %}x{% endfor %}", "{% for x in range(9) if x is odd %}{{ loop.index }}:{{ x }} {% endfor %}",
    "{% for x in range(9) %}{% if x == 3 %}{% continue %}{% endif %}{% if x > 5 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% break %}", "{% for x in l %}{% for y in l %}{% break %}{% endfor %}{{ x }}{% endfor %}",
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}{{ m.content }}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}", "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% for i in l %}{{ x }}{% set x = i %}{% endfor %}", "{% set x = 0 %}{% for i in l %}{% set x = x + 1 %}{{ x }}{% endfor %}", "{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + 1 %}{% endfor %}{{ ns.x }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1, 2, 3] %}", "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}", "{% set d.x = 1 %}", "{% set x %}a{{ s }}{% endset %}[{{ x }}]", "{% set x | upper | trim %} a{{ s }} {% endset %}[{{ x }}]",
    "{% set x = 1, 2 %}{{ x }}", "{% set x = s if yes else t %}{{ x }}", "{% if missing %}a{% elif l %}b{% else %}c{% endif %}", "{% if d.nested and d.nested.x|length == 2 %}y{% endif %}", "{% if not missing %}y{% endif %}",
    "{% macro f(a, b='x', c=none) %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 2) }} {{ f(c=3, a=1) }} {{ f() }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1)|length }}{{ f('x') ~ 'y' }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{{ f(1) }}{% macro f(a) %}{{ a }}{% endmacro %}", "{% macro f() %}{{ x }}{% endmacro %}{% set x = 3 %}{{ f() }}",
    "{% macro f() %}{{ x }}{% endmacro %}{% for x in l %}{{ f() }}{% endfor %}", "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, k=3) }}", "{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}x{{ s }}{% endcall %}",
    "{% macro f(l) %}{% for i in l %}{{ caller(i) }};{% endfor %}{% endmacro %}{% call(x) f(l) %}<{{ x }}>{% endcall %}", "{% macro f() %}  \n a {% endmacro %}[{{ f() }}][{{ f()|trim }}]", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
    "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aa{% endfilter %}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
    "{% generation %}a{{ s }}{% endgeneration %}b{% generation %}é{% endgeneration %}", "é{%- generation -%}\n a {%- endgeneration -%} b", "{% for m in messages %}{{ m.role }}:{% generation %}{{ m.content }}{% endgeneration %}\n{% endfor %}",
    "{% generation %}{% set x = 1 %}{% endgeneration %}{{ x }}", "{% set x = 5 %}{% generation %}{{ x }}{% endgeneration %}", "{% generation %}{% endgeneration %}", "a\n  {% generation %}\n  b\n  {% endgeneration %}\nc",
    "{% if x %}", "{% endif %}", "{% for %}", "{% for x in l %}", "{{ s", "{% if s", "{# never closed", "{% nonsense %}", "{{ }}", "{% %}", "{% include 'x' %}", "{% do l.append(1) %}", "{% else %}", "{% if yes %}{% endfor %}", "{{ 'a }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': 1} }}}", "a{{ '{{' }}b{{ '%}' }}", "{{ s }}\n", "{{ s }}\n\n", "\n\n{{ s }}", "{%- if yes %}\n\n x\n{%- endif %}\n\ny", "{% if yes -%}\n\n x\n{% endif -%}\n\ny", "  {%- set x = 1 -%}  a", "a  \n\t{% set x = 1 %}  \n b",
    "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] | trim + '<|im_end|>' + '\\n' }}{% endfor %}", "{% for m in messages[1:] %}{{ m.role }}{% endfor %}", "{% set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}{{ loop_messages|length }}",
    "{% for m in messages | selectattr('role', 'equalto', 'user') %}{{ m.content }}{% endfor %}", "{%- for key in d | list | sort %}{{ key }} {% endfor %}", "{% set ns = namespace(found=false, l=[]) %}{% set ns.l = ns.l + [1] %}{{ ns.l }}{{ ns.found }}{{ ns.z is defined }}",
    "{% for i in range(2) %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %}", "{{ [1, 2]|map('string')|join('+') }}{# c #}\n{{ 1 }}", "{% if yes %}{% raw %}{% endif %}{% endraw %}{% endif %}",
    "{% set x = namespace() %}{% set x.y = 1 %}{{ x.y }}{{ x['y'] }}", "{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}", "{% set x %}{% for i in l %}{{ i }}{% endfor %}{% endset %}{{ x }}{{ x is string }}",
    "{%\n  if yes\n%}\nx{%\n endif\n%}", "{{\n  s\n}}", "{% if yes %}a{% endif %}{% if yes %}\n{% endif %}b", "{%- for m in messages -%}\n  {%- if m.content %}\n    {{- m.content -}}\n  {%- endif -%}\n{%- endfor -%}", "{% generation %}{% for i in l %}{{ i }}{% endfor %}{% endgeneration %}",
]

SNIPPETS = ["{{ " + line.removesuffix("|") + " }}" for line in EXPRESSIONS.strip().split("\n")] + BLOCKS
