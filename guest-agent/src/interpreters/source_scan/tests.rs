//! Programs that are told apart by their text.

use super::{imports_only, may_change_imports};

#[test]
fn a_program_that_may_import_anything_else_is_told_apart() {
    let modules = ["os", "json", "xml.etree.ElementTree"].map(str::to_owned);
    for source in [
        "",
        "print(6 * 7)",
        "import os",
        "import os.path as p, json # quickly",
        "  from os import path; import json",
        "from xml.dom import minidom\nimport os\t\n",
    ] {
        assert!(imports_only(source.as_bytes(), &modules), "{source}");
    }
    for source in [
        "import numpy",
        "import os, numpy",
        "import os; import numpy",
        "from numpy import sin",
        "from . import os",
        "if True: import os",
        "__import__('os')",
        "import importlib",
        "print('import os')",
        "import osmium",
        "import",
    ] {
        assert!(!imports_only(source.as_bytes(), &modules), "{source}");
    }
    assert!(!imports_only(b"import os # \xff", &modules));
}

#[test]
fn a_program_that_may_change_what_modules_find_is_told_apart() {
    let may = |source: &str| may_change_imports(source.as_bytes(), &[b"OMP_"]);
    for source in [
        "import socket\nsocket.socket = Fake\nimport urllib.request",
        "import urllib.request\nurllib.request.urlopen = fake",
        "import socket as s; s.socket = 1; import ssl",
        "import json\nif True: json.dumps = str\nimport requests",
        "from xml import dom\ndom.x = 1",
        "import os\nos.path.exists = lambda _: True\nimport glob",
        "import time\ndel time.perf_counter\nimport timeit",
        "import builtins; builtins.open = None",
        "__builtins__.open = None; import os",
        "import os; setattr(os, 'getpid', int)",
        "from unittest import mock",
        "import os; os.environ['OMP_NUM_THREADS'] = '1'; import numpy",
    ] {
        assert!(may(source), "{source}");
    }
    for source in [
        "",
        "x.y = 1",
        "import sys; sys.stdout = open('x', 'w')",
        "import pandas as pd\ndf = pd.DataFrame()\ndf.columns = ['a']",
        "import pandas as pd\npd.options.display.max_rows = 5",
        "import os\nos.environ['MINE'] = '1'\nprint(os.getpid() == 1)",
        "import math\nprint(f'{math.pi=}' if math.pi == 3 else 0)\nx = math.pi",
        "import json\nif json.x == 1: pass",
        "import builtins; print(dir(builtins))",
    ] {
        assert!(!may(source), "{source}");
    }
}
